// Times as words, as `words.py` writes them.

const pad = (value) => String(value).padStart(2, "0");

export function duration(seconds) {
  if (seconds < 60) return `${Math.min(Math.max(0, seconds), 59.9).toFixed(1)} s`;
  const whole = Math.floor(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${pad(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} m`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export function brief(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h`;
  return `${Math.floor(whole / 86400)} d`;
}

export function ago(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s ago`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ago`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ago`;
  return whole < 172800 ? "yesterday" : `${Math.floor(whole / 86400)} days ago`;
}

/** Renew the texts of times that depend on now. */
export function tick(root, now) {
  for (const time of root.querySelectorAll("time[data-form]")) {
    const seconds = (now - Date.parse(time.dateTime)) / 1000;
    const words = { ago, ran: duration, waits: brief }[time.dataset.form](seconds);
    if (time.textContent !== words) time.textContent = words;
  }
}

export const many = (count, one, more = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : more}`;
