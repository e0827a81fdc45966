//! Lines, as this server writes them.

use std::io::Write;

use serde_json::{Value, json};

/// The id of a request, as it came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Id(pub(crate) Value);

impl Id {
    pub(crate) fn result(&self, result: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.0, "result": result})
    }

    pub(crate) fn error(&self, code: i32, message: &str) -> Value {
        failure(self, code, message)
    }
}

pub(crate) fn failure(id: &Id, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.0, "error": {"code": code, "message": message}})
}

/// Writes a line. An error means that the client is gone; this process ends soon after.
pub(crate) fn say(message: &Value) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{message}");
    let _ = stdout.flush();
}
