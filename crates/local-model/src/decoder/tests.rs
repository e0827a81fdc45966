use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::*;
use crate::testing::{Script, Scripted, echo, engine, round, tool, user};

/// Collects an answer.
#[derive(Default)]
struct CollectedText {
    said: String,
}

impl TextSink for CollectedText {
    fn push(&mut self, text: String) {
        self.said.push_str(&text);
    }

    fn is_open(&self) -> bool {
        true
    }
}

fn decoder(script: Script) -> Decoder {
    Decoder::new(engine(Scripted::new(script)))
}

fn asked(text: &str, tools: Vec<ToolOffer>) -> Round {
    Round { tools: tools.into(), ..round(vec![user(text)]) }
}

const PATH: &str = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;

#[test]
fn a_message_without_a_tool_request_is_answered_as_text() {
    let mut text = CollectedText::default();
    let tools = vec![tool("read_file", "Reads a file.", PATH)];
    let heard = decoder(echo).answer(&asked("What is up?", tools), &mut text).unwrap();
    assert_eq!((text.said.as_str(), heard.calls.len()), ("What is up?", 0));
}

#[test]
fn an_obvious_request_becomes_a_call() {
    let script: Script = |_| r#"{"name": "read_file", "arguments": {"path": "a.rs"}"#.to_owned();
    let mut text = CollectedText::default();
    let tools = vec![tool("read_file", "Reads a file.", PATH), tool("add", "Adds numbers.", "{}")];
    let heard = decoder(script).answer(&asked("Read a.rs", tools), &mut text).unwrap();
    let [call] = heard.calls.as_slice() else { panic!("{heard:?}") };
    assert_eq!((call.name.as_str(), call.call_id.as_str()), ("read_file", "call_t_1"));
    assert_eq!((call.input.get(), text.said.as_str()), (r#"{"path":"a.rs"}"#, ""));
}

#[test]
fn a_schema_that_makes_no_grammar_is_answered_in_words() {
    let mut engine = engine(Scripted::new(echo));
    engine.grammar = Box::new(|_| Err("unknown".to_owned()));
    let mut text = CollectedText::default();
    let tools = vec![tool("read_file", "Reads a file.", PATH)];
    let heard = Decoder::new(engine).answer(&asked("Read a.rs", tools), &mut text).unwrap();
    assert_eq!((text.said.as_str(), heard.calls.len()), ("Read a.rs", 0));
}

#[test]
fn the_model_chooses_between_tools_that_fit_alike() {
    let script: Script = |prompt| {
        let name = if prompt.contains("cats") { "search_web" } else { "search_disk" };
        format!(r#"{{"name": "{name}", "arguments": {{}}"#)
    };
    let tools = || vec![tool("search_disk", "Looks here.", "{}"), tool("search_web", "Looks there.", "{}")];
    let heard = decoder(script).answer(&asked("Search for cats", tools()), &mut CollectedText::default()).unwrap();
    assert_eq!((heard.calls[0].name.as_str(), heard.calls[0].input.get()), ("search_web", "{}"));
}

#[test]
fn an_answer_without_end_is_cut() {
    let mut text = CollectedText::default();
    let heard = decoder(|_| "ab".repeat(1000)).answer(&asked("Hi", Vec::new()), &mut text).unwrap();
    assert_eq!(heard.usage.map(|usage| usage.output_tokens), Some(ANSWER as u64));
    assert!(text.said.ends_with("abab …"), "{}", text.said);
}

#[test]
fn instructions_and_conversation_are_read_once() {
    let model = Scripted::new(echo);
    let work = Arc::clone(&model.work);
    let mut decoder = Decoder::new(engine(model));
    let mut answer = |round: &Round| {
        let before = work.load(Ordering::Relaxed);
        decoder.answer(round, &mut CollectedText::default()).unwrap();
        work.load(Ordering::Relaxed) - before
    };
    let mut first = asked("One", Vec::new());
    first.instructions = "Be brief. ".repeat(40);
    assert!(answer(&first) > 400);

    let mut second = first.clone();
    second.history.push(HistoryItem::Assistant { text: "One".to_owned(), calls: Vec::new() });
    second.history.push(user("Two"));
    assert!(answer(&second) < 60);

    let mut other = first.clone();
    other.history = vec![user("Three")];
    assert!(answer(&other) < 60);
}

#[test]
fn a_conversation_of_any_length_is_answered() {
    let mut text = CollectedText::default();
    let mut long = asked("", Vec::new());
    long.history = (0..500)
        .flat_map(|at| {
            [user(&format!("question {at}")), HistoryItem::Assistant { text: "yes".repeat(50), calls: Vec::new() }]
        })
        .collect();
    long.history.push(user("The last"));
    let heard = decoder(echo).answer(&long, &mut text).unwrap();
    assert_eq!(text.said, "The last");
    assert!(heard.usage.is_some_and(|usage| usage.input_tokens < CONTEXT as u64));
}

#[test]
fn arguments_that_are_no_object_become_an_empty_one() {
    assert_eq!(object(br#"{"a": 1}"#).get(), r#"{"a":1}"#);
    assert_eq!(object(b"[1]").get(), "{}");
    assert_eq!(object(br#"{"a": "#).get(), "{}");
}

#[test]
fn recent_tokens_get_a_repetition_penalty() {
    assert_eq!(less_of(vec![2.3, -1.0, 1.0], &[0, 1, 0]), [2.0, -1.15, 1.0]);
    assert_eq!(likeliest(&less_of(vec![1.0, 1.1, 0.0], &[1])), 0);
}

#[test]
fn likelihoods_are_logarithms_of_shares() {
    let share = likelihood(&[1000.0, 1000.0], 0);
    assert!((share - 0.5_f32.ln()).abs() < 1e-6, "{share}");
    assert_eq!(likelihood(&[0.0], 7), f32::NEG_INFINITY);
}
