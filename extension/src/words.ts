// Numbers in words, as the panel shows them. No JupyterLab here.

/** "3.2 s", "1 min 5 s", "2 h 1 min". */
export function seconds(value: number): string {
  const whole = Math.round(value);
  if (value < 59.95) return `${value.toFixed(1)} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.round(value / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Milliseconds with three digits: "180 µs", "41.3 ms", "1.2 s". */
export function ms(value: number): string {
  if (value < 0.9995) return `${Math.round(value * 1000)} µs`;
  return value < 999.5 ? `${value.toPrecision(3)} ms` : seconds(value / 1000);
}

/** A rate with three digits, and never as a power of ten: "0.4", "12.5", "1,240". */
export function rate(value: number): string {
  return value < 999.5 ? String(Number(value.toPrecision(3))) : Math.round(value).toLocaleString("en");
}
