// The icons that JupyterLab has none for.
import { LabIcon } from "@jupyterlab/ui-components";

function icon(name: string, shape: string): LabIcon {
  const svgstr = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><g class="jp-icon3" fill="#616161">${shape}</g></svg>`;
  return new LabIcon({ name: `tritonlab:${name}`, svgstr });
}

/** Three prongs. */
export const tritonIcon = icon(
  "triton",
  '<path d="M11 2h2v20h-2z"/><path d="M5 4h2v6a4 4 0 0 0 4 4h2a4 4 0 0 0 4-4V4h2v6a6 6 0 0 1-6 6h-2a6 6 0 0 1-6-6z"/>' +
    '<path d="M12 1l2.5 4h-5zM6 2l2.2 3.5H3.8zM18 2l2.2 3.5h-4.4z"/>',
);

/** The same for the launcher, which shows an image for what belongs to notebooks: it is to be seen on light and dark. */
export const tritonImage = `data:image/svg+xml;base64,${btoa(tritonIcon.svgstr.replaceAll("#616161", "#3f8fd6"))}`;

export const ejectIcon = icon("eject", '<path d="M12 5 5.3 15h13.4L12 5zM5 17h14v2.5H5z"/>');

/** A form with a button. */
export const playgroundIcon = icon("playground", '<path d="M4 5h16v2H4zM4 10h16v2H4zM4 15h9v5H4zM16 15l5 2.5-5 2.5z"/>');

/** Blocks one after the other, in two rows. */
export const timelineIcon = icon("timeline", '<path d="M3 5h7v5H3zM12 5h4v5h-4zM6 13h9v5H6zM17 13h4v5h-4zM3 20h18v1.5H3z"/>');
