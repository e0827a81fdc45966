//! The tools of this server.

use serde_json::{Value, json};

use super::wire::{Id, failure, say};
use super::{Era, Habit, Request, Server};

const NAMES: [&str; 16] = [
    "echo", "meta", "pid", "fail", "code0", "log", "count", "linger", "lingered", "ask", "think", "roots", "report",
    "grow", "touch", "die",
];

pub(crate) fn list(has_grown: bool) -> Vec<Value> {
    let grown = has_grown.then_some("grown");
    let tool = |name| json!({"name": name, "description": name, "inputSchema": {"type": "object"}});
    NAMES.into_iter().chain(grown).map(tool).collect()
}

fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

pub(crate) fn log(level: &str, data: &str) {
    say(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level, "data": data}}));
}

pub(crate) fn progress(token: Option<&Value>, progress: u32, total: u32) {
    if let Some(token) = token {
        let params = json!({"progressToken": token, "progress": progress, "total": total});
        say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
    }
}

/// The answer to a call that waited for an answer of its caller.
pub(crate) fn after(call: &Id, what: &str, answer: Option<&Value>) -> Value {
    call.result(&text(&used(what, answer)))
}

/// The text that a tool makes of an answer.
fn used(what: &str, answer: Option<&Value>) -> String {
    let answer = answer.cloned().unwrap_or_default();
    match what {
        "ask" => format!("Hello, {}!", answer["content"]["name"].as_str().unwrap_or("nobody")),
        "think" => answer["content"]["text"].as_str().unwrap_or("nothing").to_owned(),
        _ => answer["roots"][0]["uri"].as_str().unwrap_or("nowhere").to_owned(),
    }
}

fn question(what: &str) -> (&'static str, Value) {
    let form = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let said = json!({"role": "user", "content": {"type": "text", "text": "Which city?"}});
    match what {
        "ask" => ("elicitation/create", json!({"message": "Who are you?", "requestedSchema": form})),
        "think" => ("sampling/createMessage", json!({"messages": [said], "maxTokens": 5})),
        _ => ("roots/list", json!({})),
    }
}

fn capability(what: &str) -> &'static str {
    match what {
        "ask" => "elicitation",
        "think" => "sampling",
        _ => "roots",
    }
}

impl Server {
    pub(crate) fn call(&mut self, request: &Request) {
        let token = request.meta("progressToken");
        let arguments = request.params.get("arguments").cloned().unwrap_or_default();
        let mut result = match request.text("name") {
            "echo" => text(arguments["message"].as_str().unwrap_or_default()),
            "meta" => {
                let mut result = text(&request.params.get("_meta").cloned().unwrap_or_default().to_string());
                result["_meta"] = json!({"example.org/from": "the server"});
                result
            }
            "pid" => text(&std::process::id().to_string()),
            "fail" => json!({"content": [{"type": "text", "text": "alas"}], "isError": true}),
            "code0" => return say(&failure(&request.id, 0, "nothing in particular")),
            "log" => {
                self.log_lines(request);
                text("logged")
            }
            "count" => {
                (1..=3).for_each(|step| progress(token, step, 3));
                text("counted")
            }
            "linger" => {
                progress(token, 1, 100);
                if self.has(Habit::Blocks) {
                    std::thread::sleep(std::time::Duration::from_secs(600));
                }
                self.lingering.push((request.id.clone(), token.cloned()));
                return;
            }
            "lingered" => text(&self.cancelled.to_string()),
            "ask" => return self.ask(request, "ask"),
            "think" => return self.ask(request, "think"),
            "roots" => return self.ask(request, "roots"),
            "report" => {
                self.tokens.iter().for_each(|token| (2..=3).for_each(|step| progress(Some(token), step, 4)));
                text("reported")
            }
            "grow" => {
                self.has_grown = true;
                if !self.has(Habit::ChangesQuietly) {
                    self.tell("notifications/tools/list_changed", "toolsListChanged", None);
                }
                text("grown")
            }
            "touch" => {
                self.tell("notifications/resources/updated", "resourceSubscriptions", Some("test://watched"));
                text("touched")
            }
            "grown" if self.has_grown => text("here"),
            "die" => std::process::exit(9),
            _ => return say(&failure(&request.id, -32602, "Unknown tool")),
        };
        if self.era == Era::Stateless {
            result["resultType"] = json!("complete");
        }
        say(&request.id.result(&result));
    }

    /// Logs at three levels, as far as the caller wants them.
    fn log_lines(&self, request: &Request) {
        const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        let wanted = match self.era {
            Era::Handshake => self.level.as_deref().or(Some("debug")),
            Era::Stateless => request.meta("io.modelcontextprotocol/logLevel").and_then(Value::as_str),
        };
        let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
        let Some(least) = wanted.and_then(rank) else { return };
        for level in ["debug", "info", "error"].into_iter().filter(|level| rank(level) >= Some(least)) {
            log(level, level);
        }
    }

    /// Asks the caller, in the way of the era.
    fn ask(&mut self, request: &Request, what: &'static str) {
        let (method, params) = question(what);
        if self.era == Era::Handshake {
            if self.capabilities.get(capability(what)).is_none() {
                let refusal = json!({"content": [{"type": "text", "text": "nobody can be asked"}], "isError": true});
                return say(&request.id.result(&refusal));
            }
            self.next_question += 1;
            let id = format!("q-{}", self.next_question);
            self.asked.insert(id.clone(), (Some(request.id.clone()), what));
            self.tokens.extend(request.meta("progressToken").cloned());
            return say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        }
        let declared = request.meta("io.modelcontextprotocol/clientCapabilities");
        if declared.and_then(|declared| declared.get(capability(what))).is_none() {
            let data = json!({"requiredCapabilities": {capability(what): {}}});
            let error = json!({"code": -32021, "message": "nobody can be asked", "data": data});
            return say(&json!({"jsonrpc": "2.0", "id": request.id.0, "error": error}));
        }
        let state = format!("state of {what}");
        match request.params.get("inputResponses") {
            Some(answers) => {
                if request.text("requestState") != state {
                    self.object("the state is not what it was");
                }
                let mut result = text(&used(what, answers.get("it")));
                result["resultType"] = json!("complete");
                say(&request.id.result(&result));
            }
            None => {
                let requests = json!({"it": {"method": method, "params": params}});
                let result = json!({"resultType": "input_required", "inputRequests": requests, "requestState": state});
                say(&request.id.result(&result));
            }
        }
    }

    /// Sends a notification of a change to the clients that want it.
    fn tell(&self, method: &str, kind: &str, uri: Option<&str>) {
        let params = uri.map_or_else(|| json!({}), |uri| json!({"uri": uri}));
        if self.era == Era::Handshake {
            if uri.is_none_or(|uri| self.watched.contains(uri)) {
                say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
            }
            return;
        }
        for (id, wanted) in &self.listening {
            let wants = match uri {
                None => wanted[kind] == true,
                Some(uri) => wanted[kind].as_array().is_some_and(|uris| uris.iter().any(|one| one == uri)),
            };
            if wants {
                let mut params = params.clone();
                params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id.0});
                say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
            }
        }
    }
}
