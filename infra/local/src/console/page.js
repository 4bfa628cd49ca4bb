// Shows a dashboard's custom widget as CloudWatch does: it invokes the widget's function, shows the HTML,
// and makes of each <cwdb-action> what its documentation says. Nothing of the widget's own ever runs.
'use strict';

const REFRESH_MS = 3000;
const part = (id) => document.getElementById(id);
const dashboard = new URLSearchParams(location.search).get('dashboard') ?? 'ledgerline-operate';

// The call whose answer the widget shows, and the number of the latest one: an answer that comes late
// must not replace what was asked for since.
let shown;
let latest = 0;

function theme() {
  const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  return localStorage.getItem('theme') ?? system;
}

function fields() {
  const named = [...part('widget').querySelectorAll('[name]')];
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
    width: part('widget').clientWidth,
    height: part('widget').clientHeight,
  };
}

async function invoke(endpoint, params) {
  const response = await fetch('/console/call', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
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
  const element = action.previousElementSibling;
  element?.addEventListener(action.getAttribute('event') ?? 'click', (event) => {
    event.preventDefault();
    const question = action.getAttribute('confirmation');
    if (question === null || confirm(question)) perform(action);
  });
}

function perform(action) {
  const popup = action.getAttribute('display') === 'popup';
  if (action.getAttribute('action') !== 'call') {
    return popup ? open(action.innerHTML) : render(part('widget'), action.innerHTML);
  }
  const params = JSON.parse(action.textContent || '{}');
  const endpoint = action.getAttribute('endpoint');
  if (popup) {
    told(async () => open(await invoke(endpoint, params)));
  } else {
    show(endpoint, params);
  }
}

function open(answer) {
  render(part('answer'), answer);
  part('popup').showModal();
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
  const idle = () => !part('popup').open && !document.activeElement?.closest('form') && written() === before;
  if (shown && idle()) update(idle);
}

function update(wanted) {
  const mine = ++latest;
  return told(async () => {
    const answer = await invoke(shown.endpoint, shown.params);
    if (mine === latest && wanted()) render(part('widget'), answer);
  });
}

async function told(work) {
  try {
    await work();
    part('status').textContent = `as of ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    part('status').textContent = error.message;
  }
}

function dress() {
  document.documentElement.dataset.theme = theme();
}

part('theme').addEventListener('click', () => {
  localStorage.setItem('theme', theme() === 'dark' ? 'light' : 'dark');
  dress();
  part('theme').blur();
  refresh();
});
part('close').addEventListener('click', () => part('popup').close());
part('popup').addEventListener('close', refresh);
part('widget').addEventListener('submit', (event) => event.preventDefault());

dress();
told(async () => {
  const response = await fetch(`/console/dashboards/${encodeURIComponent(dashboard)}`);
  if (!response.ok) throw new Error(await response.text());
  const { properties } = (await response.json()).widgets.find((widget) => widget.type === 'custom');
  shown = { title: properties.title, original: properties.params };
  await show(properties.endpoint, properties.params);
  setInterval(refresh, REFRESH_MS);
});
