//! An exchange as messages: each line parsed once, and each request with its answers.

use gladhand_core::negotiation::Side;
use serde_json::Value;

use crate::exchange::Exchange;
use crate::rule::Subject;

/// A parsed exchange, as the rules see it.
pub(crate) struct View<'e> {
    pub(crate) exchange: &'e Exchange,
    /// The side that is judged.
    pub(crate) subject: Subject,
    /// One message for each line.
    pub(crate) messages: Vec<Message<'e>>,
}

/// A line and what it is.
#[derive(Debug)]
pub(crate) struct Message<'e> {
    /// The number of its line.
    pub(crate) line: usize,
    pub(crate) from: Side,
    pub(crate) text: &'e str,
    pub(crate) status: Option<u16>,
    /// `None`: the line is not JSON.
    pub(crate) value: Option<Value>,
}

impl<'e> Message<'e> {
    /// A member.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.value.as_ref()?.get(name)
    }

    /// A value below the message.
    pub(crate) fn at(&self, pointer: &str) -> Option<&Value> {
        self.value.as_ref()?.pointer(pointer)
    }

    /// A text below the message.
    pub(crate) fn text_at(&self, pointer: &str) -> Option<&str> {
        self.at(pointer).and_then(Value::as_str)
    }

    /// The method of a JSON-RPC request or notification.
    pub(crate) fn method(&self) -> Option<&str> {
        self.get("method").and_then(Value::as_str)
    }

    /// The type of a message of A2E or Fluxloop.
    pub(crate) fn kind(&self) -> Option<&str> {
        self.get("type").and_then(Value::as_str)
    }

    /// Whether it is a JSON-RPC request.
    pub(crate) fn is_request(&self) -> bool {
        self.method().is_some() && self.get("id").is_some()
    }

    /// Whether it is a JSON-RPC notification.
    pub(crate) fn is_notification(&self) -> bool {
        self.method().is_some() && self.get("id").is_none()
    }

    /// Whether it is a JSON-RPC response.
    pub(crate) fn is_response(&self) -> bool {
        self.method().is_none() && (self.get("result").is_some() || self.get("error").is_some())
    }

    /// The code of a JSON-RPC error.
    pub(crate) fn error_code(&self) -> Option<i64> {
        self.at("/error/code").and_then(Value::as_i64)
    }
}

/// A request and the first answer to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair<'v, 'e> {
    pub(crate) request: &'v Message<'e>,
    pub(crate) answer: &'v Message<'e>,
}

impl<'v, 'e> Pair<'v, 'e> {
    /// The lines of both.
    pub(crate) fn lines(&self) -> [usize; 2] {
        [self.request.line, self.answer.line]
    }

    /// The result of a JSON-RPC answer.
    pub(crate) fn result(&self) -> Option<&'v Value> {
        self.answer.get("result")
    }
}

impl<'e> View<'e> {
    pub(crate) fn new(exchange: &'e Exchange, subject: Subject) -> Self {
        let messages = exchange.lines.iter().enumerate().map(|(line, sent)| Message {
            line,
            from: sent.from,
            text: &sent.text,
            status: sent.status,
            value: serde_json::from_str(&sent.text).ok(),
        });
        Self { exchange, subject, messages: messages.collect() }
    }

    /// The side that is judged.
    pub(crate) fn side(&self) -> Side {
        match self.subject {
            Subject::Server => Side::Server,
            Subject::Client => Side::Client,
        }
    }

    /// The messages of the judged side.
    pub(crate) fn ours<'v>(&'v self) -> impl Iterator<Item = &'v Message<'e>> {
        let side = self.side();
        self.messages.iter().filter(move |message| message.from == side)
    }

    /// The messages of the other side.
    pub(crate) fn theirs<'v>(&'v self) -> impl Iterator<Item = &'v Message<'e>> {
        let side = self.side();
        self.messages.iter().filter(move |message| message.from != side)
    }

    /// The first answer of the judged side to a request of the other side, by JSON-RPC.
    pub(crate) fn response_to<'v>(&'v self, request: &Message<'_>) -> Option<&'v Message<'e>> {
        let id = request.get("id")?;
        let is_answer = |message: &&Message<'_>| message.is_response() && message.get("id") == Some(id);
        self.ours().filter(|message| message.line > request.line).find(is_answer)
    }

    /// Each request of the other side with this method that was answered.
    pub(crate) fn pairs<'v>(&'v self, method: &str) -> Vec<Pair<'v, 'e>> {
        let of_method = self.theirs().filter(|message| message.is_request() && message.method() == Some(method));
        of_method.filter_map(|request| Some(Pair { request, answer: self.response_to(request)? })).collect()
    }

    /// The same, if the answer is a result.
    pub(crate) fn results<'v>(&'v self, method: &str) -> Vec<(Pair<'v, 'e>, &'v Value)> {
        self.pairs(method).into_iter().filter_map(|pair| Some((pair, pair.result()?))).collect()
    }

    /// Each entry of a list in the results of a method.
    pub(crate) fn entries<'v>(&'v self, method: &str, list: &str) -> Vec<(Pair<'v, 'e>, &'v Value)> {
        let entries = |(pair, result): (Pair<'v, 'e>, &'v Value)| {
            let entries = result.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            entries.iter().map(move |entry| (pair, entry))
        };
        self.results(method).into_iter().flat_map(entries).collect()
    }

    /// The final messages of A2E that answer a message of the other side.
    pub(crate) fn finals<'v>(&'v self, request: &Message<'_>) -> Vec<&'v Message<'e>> {
        let Some(id) = request.get("id").and_then(Value::as_str) else { return Vec::new() };
        let is_final = |message: &&Message<'_>| {
            let kind = message.kind().unwrap_or_default();
            message.get("req_id").and_then(Value::as_str) == Some(id) && !kind.ends_with("/event") && !id.is_empty()
        };
        self.ours().filter(|message| message.line > request.line).filter(is_final).collect()
    }
}

/// A text of at most 60 characters, for notes.
pub(crate) fn brief(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST - 1).chain(['…']).collect()
}

/// A value as short text, for notes.
pub(crate) fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| brief(&value.to_string()))
}
