// The page of all models: asks for the document and, where the server wants one, for the token or the header of a
// restricted part. Both stay in the memory of this page.
const page = document.querySelector('rapi-doc');
const form = document.getElementById('access');
const fields = document.getElementById('fields');
const RESTRICTED = /expecting header '([^']+)'/;

// names of models are what clients send: their letters stay as they are
const STYLE = '.nav-bar-tag, .upper { text-transform: none; }';

const dark = matchMedia('(prefers-color-scheme: dark)');
const setTheme = () => page.setAttribute('theme', dark.matches ? 'dark' : 'light');
dark.addEventListener('change', setTheme);
setTheme();

async function load(headers) {
  const reply = await fetch('openapi.json', { headers });
  if (reply.ok) {
    form.hidden = true;
    page.hidden = false;
    await show(await reply.json(), headers);
    return;
  }
  const text = await reply.text();
  const restricted = RESTRICTED.exec(text);
  form.hidden = false;
  if (reply.status === 401) {
    ask('authorization', 'Token', 'This server wants a token.');
  } else if (restricted) {
    ask(restricted[1], restricted[1], `This server wants the header '${restricted[1]}'.`);
  } else {
    document.getElementById('why').textContent = text;
  }
}

function ask(name, label, why) {
  const known = fields.querySelector(`input[name="${CSS.escape(name)}"]`);
  document.getElementById('why').textContent = known ? `${why} What was sent is not right.` : why;
  if (known === null) {
    const field = document.createElement('label');
    const input = document.createElement('input');
    Object.assign(input, { name, type: 'password', required: true, autocomplete: 'off' });
    field.append(label, input);
    fields.append(field);
    input.focus();
  }
}

async function show(description, headers) {
  await customElements.whenDefined('rapi-doc');
  const loaded = new Promise(resolve => page.addEventListener('spec-loaded', resolve, { once: true }));
  await page.loadSpec(description);
  await loaded;
  const schemes = description.components.securitySchemes ?? {};
  for (const [id, scheme] of Object.entries(schemes)) {
    const value = scheme.type === 'http' ? headers.authorization?.replace('Bearer ', '') : headers[scheme.name];
    if (value) {
      page.setApiKey(id, value);
    }
  }
  const style = document.createElement('style');
  style.textContent = STYLE;
  page.shadowRoot.append(style);
}

form.addEventListener('submit', event => {
  event.preventDefault();
  const headers = {};
  for (const { name, value } of fields.querySelectorAll('input')) {
    headers[name] = name === 'authorization' ? `Bearer ${value.trim()}` : value;
  }
  void load(headers);
});

await load({});
