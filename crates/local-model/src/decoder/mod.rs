//! Answers rounds with a model, one at a time.
//!
//! This code runs on the model's thread and can take long, so it checks for cancellation between steps. It always
//! selects the likeliest token, so the same request has the same answer.

use gladhand_core::wire::RawValue;
use gladhand_models::{HistoryItem, ModelError, Round, RoundResult, ToolOffer, Usage, WantedCall};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};

use crate::conversation::{Conversation, call_in_words, request};
use crate::engine::{Engine, Model};
use crate::prefixes::Prefixes;
use crate::template::{ChatMessage, Role};
use crate::tools;
use crate::utf8::Utf8;

/// The maximum number of tokens of a conversation, even if the model supports more: a CPU needs minutes to read
/// many tokens.
pub(crate) const CONTEXT: usize = 2048;
/// The maximum number of tokens of an answer. Small models often fail to stop.
const ANSWER: usize = 320;
/// The maximum number of tokens of a call's arguments.
const ARGUMENTS: usize = 160;
/// How many tokens are read per step: some tenths of a second between checks for cancellation.
const CHUNK: usize = 32;
/// The repetition penalty, and the number of recent tokens that it applies to.
const REPEATED: f32 = 1.15;
const LATELY: usize = 64;

/// Receives an answer while it is generated.
pub(crate) trait TextSink {
    /// Receives a piece of the answer.
    fn push(&mut self, text: String);
    /// Whether the rest of the answer is still wanted.
    fn is_open(&self) -> bool;
}

/// A model with the prefix cache of earlier rounds.
pub(crate) struct Decoder {
    engine: Engine,
    prefixes: Prefixes,
}

/// The state of the model after a whole prompt.
struct Prompted {
    model: Box<dyn Model>,
    tokens: Vec<u32>,
    logits: Vec<f32>,
}

impl Decoder {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, prefixes: Prefixes::default() }
    }

    /// Answers in text, or requests a tool call.
    pub(crate) fn answer(&mut self, round: &Round, sink: &mut dyn TextSink) -> Result<RoundResult, ModelError> {
        let wanted = request(round).map(|request| (request, tools::shortlist(request, &round.tools)));
        match wanted {
            Some((request, shortlist)) if !shortlist.is_empty() => self.call(round, request, &shortlist, sink),
            _ => self.answer_in_text(round, sink),
        }
    }

    fn answer_in_text(&mut self, round: &Round, sink: &mut dyn TextSink) -> Result<RoundResult, ModelError> {
        let vocabulary = self.engine.vocabulary.as_ref();
        let mut conversation = Conversation::new(&round.instructions, &round.history, vocabulary);
        let context = self.engine.context.min(CONTEXT);
        conversation.fit(context.saturating_sub(ANSWER), vocabulary);
        let Prompted { mut model, mut tokens, mut logits } = self.read(&conversation.messages(), "", sink)?;
        let read = tokens.len();
        let mut utf8 = Utf8::default();
        loop {
            let token = likeliest(&less_of(logits, &tokens[read..]));
            if self.engine.vocabulary.ends(token) {
                break;
            }
            let said = tokens.len() - read;
            if said == ANSWER.min(context.saturating_sub(read)) {
                sink.push(" …".to_owned());
                break;
            }
            check_open(sink)?;
            let text = utf8.push(self.engine.vocabulary.bytes(token));
            if !text.is_empty() {
                sink.push(text);
            }
            logits = model.read(&[token]).map_err(ModelError::Failed)?;
            tokens.push(token);
        }
        let usage = used(read, tokens.len() - read);
        self.prefixes.keep(tokens, model);
        Ok(RoundResult { calls: Vec::new(), usage })
    }

    fn call(
        &mut self,
        round: &Round,
        request: &str,
        tools: &[&ToolOffer],
        sink: &mut dyn TextSink,
    ) -> Result<RoundResult, ModelError> {
        let tool = self.chosen(request, tools, sink)?;
        // If the schema has no grammar, the model answers in text. That is better than a wrong call.
        let Ok(mut grammar) = (self.engine.grammar)(tools::narrow(tool.schema.get(), request)) else {
            return self.answer_in_text(round, sink);
        };
        let begun = call_in_words(&tool.name, "");
        // The grammar generates the arguments, so the closing brace of the call is removed.
        let begun = begun.strip_suffix('}').unwrap_or(&begun);
        let messages = self.asking(tools, request);
        let Prompted { mut model, tokens, mut logits } = self.read(&messages, begun, sink)?;
        let mut written = Vec::new();
        let mut said = 0;
        while let Some(token) = grammar.next(&logits).map_err(ModelError::Failed)?
            && said < ARGUMENTS
        {
            check_open(sink)?;
            written.extend_from_slice(self.engine.vocabulary.bytes(token));
            said += 1;
            logits = model.read(&[token]).map_err(ModelError::Failed)?;
        }
        let call = WantedCall {
            call_id: format!("call_{}_{}", round.turn, round.number),
            name: tool.name.clone(),
            input: object(&written),
            seal: None,
        };
        Ok(RoundResult { calls: vec![call], usage: used(tokens.len(), said) })
    }

    /// Selects the tool whose name becomes likelier through the request than without a request.
    fn chosen<'a>(
        &mut self,
        request: &str,
        tools: &[&'a ToolOffer],
        sink: &mut dyn TextSink,
    ) -> Result<&'a ToolOffer, ModelError> {
        let [first, _, ..] = tools else {
            return tools.first().copied().ok_or_else(|| ModelError::Failed("no tool fits the request".to_owned()));
        };
        let with = self.likelihoods(request, tools, sink)?;
        let without = self.likelihoods("", tools, sink)?;
        let pairs: Vec<(f32, f32)> = with.into_iter().zip(without).collect();
        Ok(tools::choose(&pairs).map_or(*first, |at| tools[at]))
    }

    /// The log-likelihood that the model calls each of these tools.
    fn likelihoods(
        &mut self,
        request: &str,
        tools: &[&ToolOffer],
        sink: &mut dyn TextSink,
    ) -> Result<Vec<f32>, ModelError> {
        let prompted = self.read(&self.asking(tools, request), "{\"name\": \"", sink)?;
        let mut sums = Vec::with_capacity(tools.len());
        for tool in tools {
            let mut model = prompted.model.fork();
            let mut logits = prompted.logits.clone();
            let mut sum = 0.0;
            for token in self.engine.vocabulary.tokens(&tool.name) {
                check_open(sink)?;
                sum += likelihood(&logits, token);
                logits = model.read(&[token]).map_err(ModelError::Failed)?;
            }
            sums.push(sum);
        }
        Ok(sums)
    }

    fn asking(&self, tools: &[&ToolOffer], request: &str) -> Vec<ChatMessage> {
        let vocabulary = self.engine.vocabulary.as_ref();
        let asked = [HistoryItem::User { text: request.to_owned(), images: Vec::new() }];
        let mut conversation = Conversation::new(&tools::instructions(tools), &asked, vocabulary);
        conversation.fit(self.engine.context.min(CONTEXT).saturating_sub(ARGUMENTS), vocabulary);
        conversation.messages()
    }

    /// Reads a conversation and the start of the answer, reusing the longest cached prefix.
    fn read(&mut self, messages: &[ChatMessage], begun: &str, sink: &mut dyn TextSink) -> Result<Prompted, ModelError> {
        let text = self.engine.template.prompt(messages).map_err(ModelError::Failed)? + begun;
        let tokens = self.engine.vocabulary.tokens(&text);
        let stable = self.stable(messages, &tokens);
        let mut model = self.prefixes.longest(&tokens).unwrap_or_else(|| self.engine.model.fork());
        let mut logits = Vec::new();
        while model.length() < tokens.len() {
            check_open(sink)?;
            let from = model.length();
            let mut to = tokens.len().min(from + CHUNK);
            if from < stable {
                to = to.min(stable);
            }
            logits = model.read(&tokens[from..to]).map_err(ModelError::Failed)?;
            if to == stable {
                self.prefixes.keep(tokens[..to].to_vec(), model.fork());
            }
        }
        Ok(Prompted { model, tokens, logits })
    }

    /// How many of the tokens belong to the instructions. Other conversations start with the same tokens.
    fn stable(&self, messages: &[ChatMessage], tokens: &[u32]) -> usize {
        let instructions: Vec<ChatMessage> =
            messages.iter().take_while(|message| message.role == Role::System).cloned().collect();
        if instructions.is_empty() {
            return 0;
        }
        let beginning = self.engine.template.beginning(&instructions).unwrap_or_default();
        let beginning = self.engine.vocabulary.tokens(&beginning);
        beginning.iter().zip(tokens).take_while(|(one, other)| one == other).count().min(tokens.len().saturating_sub(1))
    }
}

fn check_open(sink: &dyn TextSink) -> Result<(), ModelError> {
    if sink.is_open() { Ok(()) } else { Err(ModelError::Cancelled) }
}

fn used(read: usize, said: usize) -> Option<Usage> {
    Some(Usage { input_tokens: read as u64, output_tokens: said as u64 })
}

/// The written text if it is a JSON object, else `{}`.
fn object(written: &[u8]) -> Box<RawValue> {
    let object: Map<String, Value> = serde_json::from_slice(written).unwrap_or_default();
    to_raw_value(&object).expect("a map of JSON values is JSON")
}

fn likeliest(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().max_by(|(_, one), (_, other)| one.total_cmp(other));
    best.and_then(|(at, _)| u32::try_from(at).ok()).unwrap_or_default()
}

/// Makes recent tokens less likely, so that the answer does not repeat itself for ever.
fn less_of(mut logits: Vec<f32>, said: &[u32]) -> Vec<f32> {
    let mut lately = said[said.len().saturating_sub(LATELY)..].to_vec();
    lately.sort_unstable();
    lately.dedup();
    for token in lately {
        if let Some(logit) = logits.get_mut(token as usize) {
            *logit = if *logit > 0.0 { *logit / REPEATED } else { *logit * REPEATED };
        }
    }
    logits
}

/// The log-likelihood of one token.
fn likelihood(logits: &[f32], token: u32) -> f32 {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|logit| (logit - highest).exp()).sum();
    logits.get(token as usize).map_or(f32::NEG_INFINITY, |logit| logit - highest - sum.ln())
}

#[cfg(test)]
mod tests;
