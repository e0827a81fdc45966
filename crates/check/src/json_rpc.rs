//! Checks that all dialects in JSON-RPC share: MCP and loaf.

use serde_json::Value;

use crate::message::{View, brief, shown};
use crate::tally::Tally;

/// Every line is JSON.
pub(crate) fn lines_are_json(view: &View<'_>, tally: &mut Tally) {
    for message in view.ours() {
        tally.expect(message.value.is_some(), &[message.line], || format!("not JSON: {}", brief(message.text)));
    }
}

/// Every message has `"jsonrpc":"2.0"`.
pub(crate) fn has_version(view: &View<'_>, tally: &mut Tally) {
    for message in view.ours().filter(|message| message.value.as_ref().is_some_and(Value::is_object)) {
        let version = message.get("jsonrpc");
        tally.expect(version.and_then(Value::as_str) == Some("2.0"), &[message.line], || {
            format!("`jsonrpc` is {}", shown(version))
        });
    }
}

/// A response has the id of a request of the other side.
pub(crate) fn response_ids_are_known(view: &View<'_>, tally: &mut Tally) {
    for message in view.ours().filter(|message| message.is_response()) {
        // An error about a message that could not be read has no id, or null.
        let Some(id) = message.get("id").filter(|id| !id.is_null()) else { continue };
        let is_known = view.theirs().any(|request| request.line < message.line && request.get("id") == Some(id));
        tally.expect(is_known, &[message.line], || format!("no request has the id {}", brief(&id.to_string())));
    }
}

/// A request has at most one response.
pub(crate) fn requests_are_answered_once(view: &View<'_>, tally: &mut Tally) {
    for request in view.theirs().filter(|message| message.is_request()) {
        let id = request.get("id");
        let same = view.theirs().filter(|other| other.is_request() && other.get("id") == id).count();
        let answers: Vec<_> = view.ours().filter(|message| message.is_response() && message.get("id") == id).collect();
        if id.is_some_and(|id| !id.is_null()) && !answers.is_empty() {
            let lines: Vec<_> = answers.iter().map(|answer| answer.line).collect();
            tally.expect(answers.len() <= same, &lines, || format!("{} answers", answers.len()));
        }
    }
}

/// Every request has a response.
pub(crate) fn requests_are_answered(view: &View<'_>, tally: &mut Tally) {
    let cancelled = |id: Option<&Value>| {
        view.theirs()
            .any(|message| message.method() == Some("notifications/cancelled") && message.at("/params/requestId") == id)
    };
    for request in view.theirs().filter(|message| message.is_request()) {
        if !view.exchange.is_complete || cancelled(request.get("id")) {
            continue;
        }
        let has_answer = view.response_to(request).is_some();
        tally.expect(has_answer, &[request.line], || {
            format!("no answer to `{}`", brief(request.method().unwrap_or_default()))
        });
    }
}

/// A response has either a result or an error.
pub(crate) fn responses_have_one_outcome(view: &View<'_>, tally: &mut Tally) {
    for message in view.ours().filter(|message| message.is_response()) {
        let has_both = message.get("result").is_some() && message.get("error").is_some();
        tally.expect(!has_both, &[message.line], || "both `result` and `error`".to_owned());
    }
}

/// Results are objects.
pub(crate) fn results_are_objects(view: &View<'_>, tally: &mut Tally) {
    for message in view.ours().filter(|message| message.is_response()) {
        if let Some(result) = message.get("result") {
            tally.expect(result.is_object(), &[message.line], || format!("the result is {}", shown(Some(result))));
        }
    }
}

/// Errors have an integer code.
pub(crate) fn error_codes_are_integers(view: &View<'_>, tally: &mut Tally) {
    for message in view.ours().filter(|message| message.is_response()) {
        if let Some(error) = message.get("error") {
            let code = error.get("code");
            tally.expect(code.is_some_and(Value::is_i64), &[message.line], || format!("`code` is {}", shown(code)));
        }
    }
}

/// Errors have a message.
pub(crate) fn error_messages_are_texts(view: &View<'_>, tally: &mut Tally) {
    for message in view.ours().filter(|message| message.is_response()) {
        if let Some(error) = message.get("error") {
            let text = error.get("message");
            tally.expect(text.is_some_and(Value::is_string), &[message.line], || {
                format!("`message` is {}", shown(text))
            });
        }
    }
}

/// The other side's line that is no JSON, if there is one, and the lines of the judged side after it.
pub(crate) fn after_malformed(
    view: &View<'_>,
    is_malformed: fn(Option<&Value>) -> bool,
) -> Option<(usize, Vec<usize>)> {
    let malformed = view.theirs().find(|message| is_malformed(message.value.as_ref()))?;
    let after: Vec<_> =
        view.ours().filter(|message| message.line > malformed.line).map(|message| message.line).collect();
    Some((malformed.line, after))
}

/// The side still answers requests that come after a line that it cannot read.
pub(crate) fn survives_malformed(view: &View<'_>, tally: &mut Tally) {
    if let Some((line, after)) = after_malformed(view, |value| value.is_none()) {
        let requests = view.theirs().filter(|message| message.line > line && message.is_request());
        for request in requests {
            let is_answered = view.response_to(request).is_some();
            let lines: Vec<_> = [line, request.line].into_iter().chain(after.iter().copied().take(3)).collect();
            tally.expect(is_answered, &lines, || "no answer after an unreadable line".to_owned());
        }
    }
}
