use std::collections::HashMap;

use candle_core::quantized::gguf_file::VersionedMagic;
use serde_json::json;

use super::*;
use crate::engine::Vocabulary;

/// A vocabulary with all bytes, two merges and two control tokens, as in a GGUF file.
fn tiny(pre: &str) -> Content {
    let bytes = (0..=u8::MAX).map(|byte| match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte).to_string(),
        0..=b' ' => char::from_u32(256 + u32::from(byte)).unwrap().to_string(),
        0x7f..=0xa0 => char::from_u32(256 + 33 + u32::from(byte) - 0x7f).unwrap().to_string(),
        0xad => '\u{143}'.to_string(),
    });
    let words = ["Ġa", "12", "<|im_start|>", "<|im_end|>"].map(str::to_owned);
    let tokens: Vec<Value> = bytes.chain(words).map(Value::String).collect();
    let kinds = (0..tokens.len()).map(|at| Value::I32(if at < 258 { 1 } else { 3 })).collect();
    let merges = ["Ġ a", "1 2"].map(|merge| Value::String(merge.to_owned())).to_vec();
    let metadata = HashMap::from(
        [
            ("tokenizer.ggml.model", Value::String("gpt2".to_owned())),
            ("tokenizer.ggml.pre", Value::String(pre.to_owned())),
            ("tokenizer.ggml.tokens", Value::Array(tokens)),
            ("tokenizer.ggml.token_type", Value::Array(kinds)),
            ("tokenizer.ggml.merges", Value::Array(merges)),
            ("tokenizer.ggml.eos_token_id", Value::U32(259)),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    Content { magic: VersionedMagic::GgufV3, metadata, tensor_infos: HashMap::new(), tensor_data_offset: 0 }
}

fn bpe(pre: &str) -> Arc<Bpe> {
    Arc::new(Bpe::of(&mut tiny(pre)).unwrap())
}

#[test]
fn digits_stand_alone_and_no_space_is_put_in_front() {
    let bpe = bpe("smollm");
    assert_eq!(bpe.tokens("a a12"), [u32::from(b'a'), 256, u32::from(b'1'), u32::from(b'2')]);
    assert_eq!(self::bpe("llama-bpe").tokens("a a12"), [u32::from(b'a'), 256, 257]);
}

#[test]
fn tokens_decode_to_the_encoded_bytes() {
    let bpe = bpe("smollm");
    let text = "é a\n\u{7f}\u{ad}日 12";
    let said: Vec<u8> = bpe.tokens(text).iter().flat_map(|token| bpe.bytes(*token).to_vec()).collect();
    assert_eq!(String::from_utf8(said).unwrap(), text);
}

#[test]
fn control_tokens_are_recognised_and_end_the_answer() {
    let bpe = bpe("smollm");
    assert_eq!(bpe.tokens("<|im_start|>a<|im_end|>"), [258, u32::from(b'a'), 259]);
    assert_eq!(bpe.controls(), ["<|im_start|>", "<|im_end|>"]);
    assert_eq!((bpe.ends(258), bpe.ends(259), bpe.ends(256)), (true, true, false));
}

#[test]
fn a_grammar_allows_only_values_of_the_schema() {
    let bpe = bpe("smollm");
    let schema = json!({
        "type": "object", "properties": {"p": {"enum": ["a.rs", "b"]}}, "required": ["p"], "additionalProperties": false,
    });
    let mut grammar = maker(&bpe)(schema);
    // Logits that prefer `b` over all other tokens.
    let mut logits = vec![0.0; 260];
    logits[usize::from(b'b')] = 1.0;
    let mut said = Vec::new();
    while let Some(token) = grammar.next(&logits).unwrap() {
        said.extend_from_slice(bpe.bytes(token));
    }
    assert_eq!(String::from_utf8(said).unwrap(), r#"{"p": "b"}"#);
}

fn maker(bpe: &Arc<Bpe>) -> impl Fn(serde_json::Value) -> Box<dyn crate::engine::Grammar> {
    let make = grammar::maker(bpe).unwrap();
    move |schema| make(schema).unwrap()
}

#[test]
fn a_file_that_is_no_gguf_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.gguf");
    assert!(load(&file).is_err());
    std::fs::write(&file, "something else").unwrap();
    let error = load(&file).unwrap_err();
    assert!(error.starts_with("not a GGUF file: ") && !error.contains("incomplete"), "{error}");
    // The header of a GGUF file, without the counts of its tensors and values, and without these.
    let header = b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0";
    for length in [8, header.len()] {
        std::fs::write(&file, &header[..length]).unwrap();
        let error = load(&file).unwrap_err();
        assert!(error.contains(FILE_NAME) && error.contains(SOURCE) && !error.contains("xtask"), "{error}");
    }
}
