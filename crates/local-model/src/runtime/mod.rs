//! Runs a model: candle for tensors, tokenizers for text, llguidance for grammars.
//!
//! Supports GGUF files of the llama family with a byte-level BPE vocabulary. Tokens, merges, template and sizes are
//! read from the file itself.

mod grammar;
mod vocabulary;
mod weights;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use candle_core::quantized::gguf_file::{Content, Value};
use candle_transformers::models::quantized_llama::MAX_SEQ_LEN;
use gladhand_models::Models;

use crate::engine::Engine;
use crate::model_file::{FILE_NAME, SOURCE};
use crate::template::Template;
use crate::worker::LocalModel;
use vocabulary::Bpe;

/// The environment variable with the number of candle's worker threads.
const THREADS: &str = "CANDLE_NUM_THREADS";

/// The model in this file. It is loaded in its first round.
pub fn open(path: &Path) -> Arc<dyn Models> {
    Arc::new(LocalModel::new(path, load))
}

/// Limits models to one thread, unless the environment sets a number.
///
/// Candle's workers spin at barriers. On a machine whose cores are busy, two workers are twenty times slower than
/// one. The number can only be set in the environment.
///
/// # Safety
///
/// No other thread may run yet, because C code can read the environment without synchronization. Call this first in
/// `main`.
#[expect(
    unsafe_code,
    reason = "candle reads the number only from the environment, and the caller guarantees that no other thread runs"
)]
pub unsafe fn keep_to_one_thread() {
    if std::env::var_os(THREADS).is_none() {
        // SAFETY: the caller guarantees that this is the only thread.
        unsafe { std::env::set_var(THREADS, "1") };
    }
}

fn load(path: &Path) -> Result<Engine, String> {
    let mut file = BufReader::new(File::open(path).map_err(|why| why.to_string())?);
    let mut content = Content::read(&mut file).map_err(|why| format!("not a GGUF file: {}", message(&why)))?;
    match text(&content, "general.architecture") {
        Some("llama") => {}
        other => {
            return Err(format!("its architecture is `{}`, and only `llama` is known", other.unwrap_or("unknown")));
        }
    }
    let vocabulary = Arc::new(Bpe::of(&mut content)?);
    let token = |key: &str| vocabulary.spelled(number(&content, key));
    let source = text(&content, "tokenizer.chat_template");
    let template = Template::new(source, token("tokenizer.ggml.bos_token_id"), token("tokenizer.ggml.eos_token_id"));
    let trained = number(&content, "llama.context_length").map_or(MAX_SEQ_LEN, |length| length as usize);
    Ok(Engine {
        template,
        context: trained.min(MAX_SEQ_LEN),
        grammar: grammar::maker(&vocabulary)?,
        model: weights::load(content, &mut file).map_err(|why| message(&why))?,
        vocabulary: Box::new(vocabulary),
    })
}

/// The error message without the backtrace that follows the first line. A file that ends too early has a hint.
fn message(error: &candle_core::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    // Candle compares lengths with the rest of the file before it reads, and reports that only as text.
    match is_early_end(error) || line.contains(" remaining") {
        true => format!("{line}; the file is incomplete: replace it by {FILE_NAME} from {SOURCE}"),
        false => line.to_owned(),
    }
}

/// Whether reading reached the end of the file.
fn is_early_end(error: &candle_core::Error) -> bool {
    match error {
        candle_core::Error::Io(error) => error.kind() == std::io::ErrorKind::UnexpectedEof,
        candle_core::Error::WithBacktrace { inner, .. } | candle_core::Error::Context { inner, .. } => {
            is_early_end(inner)
        }
        _ => false,
    }
}

fn text<'a>(content: &'a Content, key: &str) -> Option<&'a str> {
    content.metadata.get(key)?.to_string().ok().map(String::as_str)
}

fn number(content: &Content, key: &str) -> Option<u32> {
    match content.metadata.get(key)? {
        Value::U32(number) => Some(*number),
        Value::I32(number) => u32::try_from(*number).ok(),
        Value::U64(number) => u32::try_from(*number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
