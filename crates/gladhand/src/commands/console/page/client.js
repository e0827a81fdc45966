// An ordinary MCP client of the endpoint, over Streamable HTTP. The page has no other way to call anything.

const VERSION = "2025-11-25";

/** An error that the server answered. */
export class RpcError extends Error {
  constructor(error) {
    super(String(error.message ?? "the server answered with an error"));
    this.code = error.code;
    this.data = error.data;
  }
}

export class Client {
  /** `handlers.ask(method, params, signal)` answers requests of the server, `handlers.notice(method, params)` takes notices. */
  constructor(handlers) {
    this.handlers = handlers;
    this.token = "";
    this.session = null;
    this.version = null;
    this.capabilities = {};
    this.server = {};
    this.nextId = 1;
    /** Id of a request of ours → how its promise ends. */
    this.pending = new Map();
    /** Id of a request of the server → how to abort it. */
    this.asked = new Map();
    this.listening = null;
  }

  /** Opens a session. */
  async open() {
    const result = await this.request("initialize", {
      protocolVersion: VERSION,
      capabilities: { elicitation: { form: {}, url: {} }, sampling: {} },
      clientInfo: { name: "gladhand-console", title: "Gladhand console", version: "1" },
    });
    this.version = result.protocolVersion;
    this.capabilities = result.capabilities ?? {};
    this.server = result.serverInfo ?? {};
    this.instructions = result.instructions;
    await this.notify("notifications/initialized", {});
    this.listen();
  }

  /** Ends the session. */
  close() {
    this.listening?.abort();
    this.listening = null;
    if (!this.session) return;
    fetch("/mcp", { method: "DELETE", headers: this.headers(), keepalive: true }).catch(() => {});
    this.session = null;
  }

  /** All entries of a list, page by page. */
  async list(method, member) {
    const all = [];
    let cursor;
    do {
      const page = await this.request(method, cursor === undefined ? {} : { cursor });
      all.push(...(page[member] ?? []));
      cursor = page.nextCursor;
    } while (cursor !== undefined && all.length < 10_000);
    return all;
  }

  /** Sends a request and returns its result. `options`: `progress` gets notices of progress, `signal` cancels. */
  request(method, params, options = {}) {
    const id = this.nextId++;
    const message = { jsonrpc: "2.0", id, method, params: { ...params } };
    if (options.progress) message.params._meta = { ...params._meta, progressToken: id };
    return new Promise((resolve, reject) => {
      this.pending.set(id, { resolve, reject, progress: options.progress });
      options.signal?.addEventListener("abort", () => {
        this.notify("notifications/cancelled", { requestId: id, reason: "cancelled in the console" }).catch(() => {});
        this.fail(id, new Error("cancelled"));
      });
      this.post(message).then(
        () => this.fail(id, new Error("the server ended the answer without a result")),
        (error) => this.fail(id, error),
      );
    });
  }

  /** Sends a notice. */
  notify(method, params) {
    return this.post({ jsonrpc: "2.0", method, params });
  }

  fail(id, error) {
    const pending = this.pending.get(id);
    this.pending.delete(id);
    pending?.reject(error);
  }

  headers() {
    const headers = {};
    if (this.session) headers["Mcp-Session-Id"] = this.session;
    if (this.version) headers["MCP-Protocol-Version"] = this.version;
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    return headers;
  }

  /** Posts a message, and takes everything that comes back. */
  async post(message) {
    const headers = { ...this.headers(), "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
    const response = await fetch("/mcp", { method: "POST", headers, body: JSON.stringify(message), credentials: "omit" });
    const type = response.headers.get("Content-Type") ?? "";
    this.session = response.headers.get("Mcp-Session-Id") ?? this.session;
    if (type.startsWith("text/event-stream")) return this.readEvents(response.body);
    const text = await response.text();
    let answer = null;
    try {
      answer = text ? JSON.parse(text) : null;
    } catch {
      // The status says what happened.
    }
    if (response.status === 401) throw Object.assign(new Error("the endpoint needs a token"), { status: 401 });
    if (answer && (answer.id !== undefined || answer.method)) this.take(answer);
    if (!response.ok) throw Object.assign(new Error(answer?.error?.message ?? `the server answered ${response.status}`), { status: response.status });
  }

  /** Takes messages that belong to no request of ours. */
  async listen() {
    this.listening = new AbortController();
    try {
      const headers = { ...this.headers(), Accept: "text/event-stream" };
      const response = await fetch("/mcp", { headers, signal: this.listening.signal, credentials: "omit" });
      if (response.ok) await this.readEvents(response.body);
    } catch {
      // Without the stream, only notices outside of calls are missed.
    }
  }

  async readEvents(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value.replaceAll("\r\n", "\n");
      let end;
      while ((end = text.indexOf("\n\n")) >= 0) {
        const data = text.slice(0, end).split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
        text = text.slice(end + 2);
        if (data) this.take(JSON.parse(data));
      }
    }
  }

  take(message) {
    if (message.method && message.id !== undefined) this.answer(message);
    else if (message.method) this.notice(message);
    else {
      const pending = this.pending.get(message.id);
      this.pending.delete(message.id);
      if (message.error) pending?.reject(new RpcError(message.error));
      else pending?.resolve(message.result ?? {});
    }
  }

  notice({ method, params = {} }) {
    if (method === "notifications/progress") this.pending.get(params.progressToken)?.progress?.(params);
    else if (method === "notifications/cancelled") this.asked.get(params.requestId)?.abort();
    else this.handlers.notice(method, params);
  }

  async answer({ id, method, params = {} }) {
    const aborted = new AbortController();
    this.asked.set(id, aborted);
    let answer;
    try {
      answer = { result: method === "ping" ? {} : await this.handlers.ask(method, params, aborted.signal) };
    } catch (error) {
      answer = { error: { code: error.code ?? -32603, message: error.message } };
    }
    this.asked.delete(id);
    if (!aborted.signal.aborted) await this.post({ jsonrpc: "2.0", id, ...answer }).catch(() => {});
  }
}
