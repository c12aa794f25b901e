use candle_core::Device;
use tempfile::TempDir;

use super::{PromptEncoder, Tokenizer};
use crate::family_files::write_family;
use crate::gguf::Gguf;

fn read(family: &str) -> Tokenizer {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("tiny.gguf");
    write_family(&path, family, 0);
    Tokenizer::read(&mut Gguf::open(&path, Device::Cpu).unwrap()).unwrap()
}

const BEGIN: u32 = 1;

/// The expected tokens are those of llama.cpp for the same file. The text has the spelling of a
/// special token, which must remain text, and a letter without a token, which becomes byte tokens.
#[test]
fn sentence_piece_text_has_the_tokens_of_llama_cpp() {
    let tokens = read("mistral3").encode_content("Hello the  man <s>in the \u{e9} there");
    let text: Vec<u8> = tokens.iter().flat_map(|token| read("mistral3").bytes(*token).to_vec()).collect();
    assert_eq!(String::from_utf8(text).unwrap(), "Hello the  man <s>in the \u{e9} there");
    let expected = [
        309, 338, 345, 345, 348, 263, 265, 346, 264, 269, 297, 352, 299, 262, 263, 269, 198, 172, 263, 351,
        338,
    ];
    assert_eq!(tokens, expected);
}

#[test]
fn begin_token_is_inserted_once() {
    let tokenizer = read("mistral3");
    for markup in ["Hi", "<s>Hi"] {
        let mut prompt = PromptEncoder::new(&tokenizer);
        prompt.push_markup(markup);
        let tokens = prompt.finish();
        assert_eq!(tokens.iter().filter(|token| **token == BEGIN).count(), 1, "{markup}");
        assert_eq!(tokens[0], BEGIN, "{markup}");
    }
}

#[test]
fn beginnings_of_a_text_may_follow_a_space() {
    let tokenizer = read("mistral3");
    let tokens = tokenizer.beginnings_of("the man");
    let texts: Vec<_> = tokens.iter().map(|token| String::from_utf8_lossy(tokenizer.bytes(*token))).collect();
    assert!(texts.iter().all(|text| "the man".starts_with(text.trim_start())), "{texts:?}");
    assert!(texts.contains(&" the".into()) && texts.contains(&"t".into()), "{texts:?}");
}
