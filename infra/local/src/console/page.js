// Shows a dashboard's custom widget as CloudWatch does: it invokes the widget's function, shows the HTML,
// and makes of each <cwdb-action> what its documentation says. Nothing of the widget's own ever runs.
'use strict';

const REFRESH_MS = 3000;
const element = (id) => document.getElementById(id);
const dashboard = new URLSearchParams(location.search).get('dashboard') ?? 'ledgerline-{region}-operate';

// The token of this run, from the address that `make run` printed. The links of the page do not carry it.
const token = new URLSearchParams(location.hash.slice(1)).get('token') ?? sessionStorage.getItem('token') ?? '';
sessionStorage.setItem('token', token);
history.replaceState(null, '', location.pathname + location.search);
const authorization = `Bearer ${token}`;

// The call whose answer the widget shows, and the number of the latest one: an answer that comes late
// must not replace what was asked for since.
let shown;
let latest = 0;

function theme() {
  const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  return localStorage.getItem('theme') ?? system;
}

function fields() {
  const named = [...element('widget').querySelectorAll('[name]')];
  return Object.fromEntries(named.map((field) => [field.name, field.value]));
}

function widgetContext() {
  const offset = -new Date().getTimezoneOffset();
  return {
    dashboardName: dashboard,
    widgetId: 'widget-1',
    accountId: '000000000000',
    locale: navigator.language,
    timezone: { label: 'Local', offsetInMinutes: offset },
    theme: theme(),
    title: shown.title,
    forms: { all: fields() },
    params: shown.original,
    width: element('widget').clientWidth,
    height: element('widget').clientHeight,
  };
}

async function invoke(endpoint, params) {
  const response = await fetch('/console/call', {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ endpoint, event: { ...params, widgetContext: widgetContext() } }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return JSON.parse(text);
}

function render(place, answer) {
  if (typeof answer === 'string') {
    place.innerHTML = answer;
  } else {
    place.textContent = JSON.stringify(answer, null, 2);
  }
  place.querySelectorAll('cwdb-action').forEach(bind);
}

function bind(action) {
  const button = action.previousElementSibling;
  button?.addEventListener(action.getAttribute('event') ?? 'click', (event) => {
    event.preventDefault();
    const question = action.getAttribute('confirmation');
    if (question === null || confirm(question)) perform(action);
  });
}

function perform(action) {
  const popup = action.getAttribute('display') === 'popup';
  if (action.getAttribute('action') !== 'call') {
    return popup ? open(action.innerHTML) : render(element('widget'), action.innerHTML);
  }
  const params = JSON.parse(action.textContent || '{}');
  const endpoint = action.getAttribute('endpoint');
  if (popup) {
    showingErrors(async () => open(await invoke(endpoint, params)));
  } else {
    show(endpoint, params);
  }
}

function open(answer) {
  render(element('answer'), answer);
  element('popup').showModal();
}

function show(endpoint, params) {
  shown = { ...shown, endpoint, params };
  return update(() => true);
}

// Live numbers: the same call again, which by the protocol only shows. Whoever is writing is not disturbed, and
// what was written while it was under way is not lost.
function refresh() {
  const written = () => JSON.stringify(fields());
  const before = written();
  const idle = () => !element('popup').open && !document.activeElement?.closest('form') && written() === before;
  if (shown && idle()) update(idle);
}

function update(wanted) {
  const mine = ++latest;
  return showingErrors(async () => {
    const answer = await invoke(shown.endpoint, shown.params);
    if (mine === latest && wanted()) render(element('widget'), answer);
  });
}

async function showingErrors(work) {
  try {
    await work();
    element('status').textContent = `as of ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    element('status').textContent = error.message;
  }
}

function applyTheme() {
  document.documentElement.dataset.theme = theme();
}

element('theme').addEventListener('click', () => {
  localStorage.setItem('theme', theme() === 'dark' ? 'light' : 'dark');
  applyTheme();
  element('theme').blur();
  refresh();
});
element('close').addEventListener('click', () => element('popup').close());
element('popup').addEventListener('close', refresh);
element('widget').addEventListener('submit', (event) => event.preventDefault());

applyTheme();
showingErrors(async () => {
  const response = await fetch(`/console/dashboards/${encodeURIComponent(dashboard)}`, { headers: { authorization } });
  if (!response.ok) throw new Error(await response.text());
  const { properties } = (await response.json()).widgets.find((widget) => widget.type === 'custom');
  shown = { title: properties.title, original: properties.params };
  await show(properties.endpoint, properties.params);
  setInterval(refresh, REFRESH_MS);
});
