// Requests to the service, with the token that this tab remembers.

const TOKEN = "mta-serve-token";

export class Problem extends Error {
  constructor(status, name, detail) {
    super(detail);
    this.status = status;
    this.name = name;
  }
}

export function remember(token) {
  sessionStorage.setItem(TOKEN, token);
}

export async function ask(path, body) {
  const headers = { accept: "application/json" };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.authorization = `Bearer ${token}`;
  const options = { headers, signal: AbortSignal.timeout(15000) };
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  }
  const answer = await fetch(path, options);
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    if (answer.status === 401) sessionStorage.removeItem(TOKEN);
    throw new Problem(answer.status, found.name ?? "Error", found.detail ?? answer.statusText);
  }
  return found;
}
