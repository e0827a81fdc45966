//! Tests with the real model. `cargo xtask model` downloads the file and prints how to run them.
#![cfg(feature = "runtime")]
#![expect(clippy::print_stdout, reason = "shows the answers of the model and their speed")]

use std::path::PathBuf;
use std::time::Instant;

use async_trait::async_trait;
use gladhand_core::wire::RawValue;
use gladhand_local_model::open;
use gladhand_models::{
    HistoryItem, Listener, ModelError, Models, Piece, Round, RoundResult, Segment, Thinking, ToolOffer,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Collects an answer, and cancels after this many pieces.
struct Ear {
    said: String,
    most: usize,
    cancel: CancellationToken,
}

#[async_trait]
impl Listener for Ear {
    async fn piece(&mut self, piece: Piece) {
        for segment in piece.segments {
            if let Segment::Answer(text) = segment {
                self.said.push_str(&text);
            }
        }
        self.most -= 1;
        if self.most == 0 {
            self.cancel.cancel();
        }
    }

    async fn debug(&mut self, _: &'static str, _: Box<RawValue>) {}
}

fn file() -> PathBuf {
    std::env::var_os("GLADHAND_TEST_MODEL").expect("GLADHAND_TEST_MODEL names the model's file").into()
}

fn user(text: &str) -> HistoryItem {
    HistoryItem::User { text: text.to_owned(), images: Vec::new() }
}

fn tool(name: &str, description: &str, argument: &str) -> ToolOffer {
    let schema = format!(
        r#"{{"type":"object","properties":{{"{argument}":{{"type":"string"}},"limit":{{"type":"integer"}}}},"required":["{argument}"]}}"#
    );
    let schema = RawValue::from_string(schema).expect("it is JSON");
    ToolOffer { name: name.to_owned(), description: description.to_owned(), schema }
}

fn round(said: Vec<HistoryItem>, tools: Vec<ToolOffer>) -> Round {
    Round {
        number: 1,
        turn: "turn".to_owned(),
        model: "local".to_owned(),
        thinking: Thinking::Off,
        routing: None,
        instructions: "You are a helpful assistant. Answer shortly.".to_owned(),
        history: said,
        tools: tools.into(),
    }
}

async fn ask(model: &dyn Models, round: &Round, most: usize) -> (String, Result<RoundResult, ModelError>) {
    let cancel = CancellationToken::new();
    let mut ear = Ear { said: String::new(), most, cancel: cancel.clone() };
    let begun = Instant::now();
    let end = model.round(round, &mut ear, &cancel).await;
    let usage = end.as_ref().ok().and_then(|heard| heard.usage);
    println!("{:?} after {:?}, {usage:?}", ear.said, begun.elapsed());
    (ear.said, end)
}

#[tokio::test]
#[ignore = "needs the model's file"]
async fn a_short_conversation() {
    let model = open(&file());
    let first = round(vec![user("What is the capital of France?")], Vec::new());
    let (said, end) = ask(model.as_ref(), &first, usize::MAX).await;
    end.unwrap();
    assert!(said.contains("Paris"), "{said}");

    let answered = HistoryItem::Assistant { text: said, calls: Vec::new() };
    let mut second = first.clone();
    second.history.extend([answered, user("And of Italy?")]);
    let (said, end) = ask(model.as_ref(), &second, usize::MAX).await;
    end.unwrap();
    assert!(said.contains("Rome"), "{said}");
}

#[tokio::test]
#[ignore = "needs the model's file"]
async fn a_cancelled_answer() {
    let model = open(&file());
    let (_, end) = ask(model.as_ref(), &round(vec![user("Tell me a long story.")], Vec::new()), 5).await;
    assert_eq!(end.unwrap_err(), ModelError::Cancelled);
    let (said, end) = ask(model.as_ref(), &round(vec![user("Say hello.")], Vec::new()), usize::MAX).await;
    end.unwrap();
    assert!(!said.is_empty());
}

#[tokio::test]
#[ignore = "needs the model's file"]
async fn calls_within_their_schemas() {
    let model = open(&file());
    let tools = || {
        vec![
            tool("read_file", "Reads a file and returns its text.", "path"),
            tool("run_command", "Runs a command in the shell.", "command"),
            tool("search_web", "Searches the web for pages.", "query"),
            tool("search_files", "Searches the files of the project for a text.", "text"),
        ]
    };
    let requests = [
        ("Read src/main.rs", "read_file", r#"{"path":"src/main.rs"}"#),
        ("Please read the file docs/guide.md.", "read_file", r#"{"path":"docs/guide.md"}"#),
        ("Run `cargo test`", "run_command", r#"{"command":"cargo test"}"#),
        ("Search the web for tall trees", "search_web", ""),
        ("Search the files for parse_header", "search_files", ""),
    ];
    for (request, name, input) in requests {
        let (said, end) = ask(model.as_ref(), &round(vec![user(request)], tools()), usize::MAX).await;
        let heard = end.unwrap();
        let [call] = heard.calls.as_slice() else { panic!("{request}: {heard:?}") };
        println!("{request}: {} {}", call.name, call.input);
        assert_eq!(said, "");
        let given: serde_json::Map<String, Value> = serde_json::from_str(call.input.get()).unwrap();
        assert_eq!(given.len(), 1, "{given:?}");
        assert!(given.values().all(|value| value.as_str().is_some_and(|text| request.contains(text))), "{given:?}");
        // A model of this size can choose the wrong one of two tools that match equally. Only the rule-based
        // choice is certain.
        if !input.is_empty() {
            assert_eq!((call.name.as_str(), call.input.get()), (name, input));
        }
    }
}
