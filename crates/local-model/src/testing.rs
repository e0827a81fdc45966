//! A scripted model for tests: bytes are tokens, and the next byte of the script is certain.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gladhand_core::wire::RawValue;
use gladhand_models::{HistoryItem, Round, Thinking, ToolOffer};

use crate::engine::{Engine, Grammar, Model, Vocabulary};
use crate::template::Template;

const CONTROLS: [(&str, u32); 2] = [("<|im_start|>", 256), ("<|im_end|>", END)];
const END: u32 = 257;
const START: &str = "<|im_start|>assistant\n";

/// The answer of a model to a prompt.
pub(crate) type Script = fn(&str) -> String;

/// Bytes, and the control tokens of ChatML.
#[derive(Debug)]
pub(crate) struct Letters;

impl Vocabulary for Letters {
    fn tokens(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let control = CONTROLS.iter().find_map(|(spelled, token)| Some((rest.strip_prefix(spelled)?, *token)));
            if let Some((after, token)) = control {
                tokens.push(token);
                rest = after;
            } else {
                let (letter, after) = rest.split_at(rest.ceil_char_boundary(1));
                tokens.extend(letter.bytes().map(u32::from));
                rest = after;
            }
        }
        tokens
    }

    fn bytes(&self, token: u32) -> &[u8] {
        static ALL: [u8; 256] = {
            let mut all = [0; 256];
            let mut at = 0;
            while at < 256 {
                all[at] = at as u8;
                at += 1;
            }
            all
        };
        ALL.get(token as usize..=token as usize).unwrap_or_default()
    }

    fn ends(&self, token: u32) -> bool {
        token >= 256
    }

    fn controls(&self) -> &[String] {
        static SPELLED: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
        SPELLED.get_or_init(|| CONTROLS.iter().map(|(spelled, _)| (*spelled).to_owned()).collect())
    }
}

/// A model that continues with the answer of the script to the prompt.
#[derive(Debug, Clone)]
pub(crate) struct Scripted {
    script: Script,
    read: Vec<u32>,
    /// How many tokens all forks have read.
    pub(crate) work: Arc<AtomicUsize>,
}

impl Scripted {
    pub(crate) fn new(script: Script) -> Self {
        Self { script, read: Vec::new(), work: Arc::default() }
    }

    pub(crate) fn having_read(tokens: usize) -> Self {
        Self { read: vec![0; tokens], ..Self::new(|_| String::new()) }
    }

    fn next(&self) -> u32 {
        let spelled = |token: &u32| {
            let control = CONTROLS.iter().find(|(_, control)| control == token);
            control.map_or_else(|| Letters.bytes(*token).to_vec(), |(spelled, _)| spelled.as_bytes().to_vec())
        };
        let text: Vec<u8> = self.read.iter().flat_map(spelled).collect();
        let Some(at) = text.windows(START.len()).rposition(|window| window == START.as_bytes()) else { return END };
        let said = text.len() - at - START.len();
        let script = (self.script)(&String::from_utf8_lossy(&text[..at]));
        script.as_bytes().get(said).map_or(END, |byte| u32::from(*byte))
    }
}

impl Model for Scripted {
    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>, String> {
        self.read.extend_from_slice(tokens);
        self.work.fetch_add(tokens.len(), Ordering::Relaxed);
        let mut logits = vec![0.0; 258];
        logits[self.next() as usize] = 100.0;
        Ok(logits)
    }

    fn length(&self) -> usize {
        self.read.len()
    }

    fn fork(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

/// A grammar that permits everything.
struct Anything;

impl Grammar for Anything {
    fn next(&mut self, logits: &[f32]) -> Result<Option<u32>, String> {
        let token = logits.iter().position(|logit| *logit > 0.0).and_then(|at| u32::try_from(at).ok());
        Ok(token.filter(|token| *token != END))
    }
}

/// An engine with a scripted model.
pub(crate) fn engine(model: Scripted) -> Engine {
    Engine {
        vocabulary: Box::new(Letters),
        model: Box::new(model),
        template: Template::new(None, "", ""),
        context: 2048,
        grammar: Box::new(|_| Ok(Box::new(Anything))),
    }
}

/// Loads a model that repeats the last line of the prompt. A file named `broken` cannot be loaded.
pub(crate) fn load_echo(path: &Path) -> Result<Engine, String> {
    if path.ends_with("broken") {
        return Err("that is no model".to_owned());
    }
    Ok(engine(Scripted::new(echo)))
}

/// Repeats the last line of the prompt.
pub(crate) fn echo(prompt: &str) -> String {
    let asked = prompt.trim_end().trim_end_matches("<|im_end|>");
    asked.lines().last().unwrap_or_default().to_owned()
}

pub(crate) fn user(text: &str) -> HistoryItem {
    HistoryItem::User { text: text.to_owned(), images: Vec::new() }
}

pub(crate) fn round(said: Vec<HistoryItem>) -> Round {
    Round {
        number: 1,
        turn: "t".to_owned(),
        model: "small".to_owned(),
        thinking: Thinking::Off,
        routing: None,
        instructions: String::new(),
        history: said,
        tools: [].into(),
    }
}

pub(crate) fn tool(name: &str, description: &str, schema: &str) -> ToolOffer {
    ToolOffer {
        name: name.to_owned(),
        description: description.to_owned(),
        schema: RawValue::from_string(schema.to_owned()).expect("the test gives JSON"),
    }
}
