//! Nothing that is asked, and nothing that is in a file, stops the answering.

use gladhand_faq::{FaqError, Library, Limits, Question};
use proptest::prelude::*;

fn own(query: &str) -> Result<gladhand_faq::Answer, FaqError> {
    thread_local! {
        static LIBRARY: Library = Library::open("/nonexistent");
    }
    LIBRARY.with(|library| library.ask(&Question::new(query), None, &Limits::default()))
}

#[test]
fn a_question_of_nothing_is_refused() {
    for query in ["", "   ", "\n\t"] {
        assert_eq!(own(query).unwrap_err().to_string(), "query is required");
    }
}

#[test]
fn index_query_syntax_in_questions_has_no_effect() {
    for query in [
        "\"",
        "*",
        "\"exit codes",
        "exit* AND codes",
        "NEAR(exit codes, 2)",
        "heading : exit",
        "NOT",
        "a OR",
        "^exit",
        "{heading}: x",
        "exit\0codes",
        "\0",
        "'; DROP TABLE files; --",
        "-",
        "+",
        "(",
        "(((((",
        "\u{feff}",
        "exit - codes",
        "\\",
    ] {
        own(query).unwrap_or_else(|error| panic!("{query:?}: {error}"));
    }
    let found = own("\"exit\" AND codes*").unwrap();
    let best = found.citations.iter().max_by(|one, other| one.score.total_cmp(&other.score));
    assert_eq!(best.map(|best| best.section.as_str()), Some("Exit codes"));
}

#[test]
fn a_question_of_a_megabyte_is_answered_by_its_beginning() {
    let long = format!("exit codes {}", "exit codes ".repeat(100_000));
    assert_eq!(own(&long).unwrap(), own("exit codes").unwrap());
    own(&"x".repeat(1 << 20)).unwrap();
    own(&"(".repeat(1 << 20)).unwrap();
    own(&"a.".repeat(1 << 19)).unwrap();
}

#[test]
fn the_number_of_sections_stays_within_its_bounds() {
    let library = Library::open("/nonexistent");
    let used = |top_k| {
        let question = Question { top_k, ..Question::new("session") };
        library.ask(&question, None, &Limits::default()).unwrap().chunks_used
    };
    assert_eq!([used(None), used(Some(0)), used(Some(2)), used(Some(u32::MAX))], [5, 1, 2, 20]);
}

#[test]
fn questions_are_read_as_they_are_documented() {
    let asked = r#"{"query":"W200","topK":1,"context":{"detected_framework":"fastapi","other":[1]},"unknown":true}"#;
    let question: Question = serde_json::from_str(asked).unwrap();
    assert_eq!((question.query.as_str(), question.top_k), ("W200", Some(1)));
    assert_eq!(question.context.unwrap().detected_framework.as_deref(), Some("fastapi"));
    let schema = serde_json::to_value(schemars::schema_for!(Question)).unwrap();
    assert_eq!(schema["required"], serde_json::json!(["query"]));
    assert_eq!(schema["properties"]["topK"]["maximum"], 20);
}

/// Text with much of what means something in one of the formats.
fn markup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z ]{0,12}",
        1 => any::<char>().prop_map(String::from),
        4 => prop::sample::select(vec![
            "\n", "\n\n", "```", "~~~", "# ", "====\n", "----\n", "| a | b |\n", "|---|\n", "- ", "---\n", "<!--", "-->", "<h1>",
            "</h1>", "<pre>", "</pre>", "<td>", "<title>", "</nav>", "&amp;", ".. x::\n", "ALONE\n", "1.2 Part\n", ":", ". A",
            "title: x\n", "[a](b", "{#", "`", "設定", "\r\n", "import x\n", "''", "a.b-c::d",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_question_is_answered(query in any::<String>()) {
        if !query.trim().is_empty() {
            own(&query).unwrap();
        }
    }

    #[test]
    fn any_document_is_read(text in markup(), query in "[a-z]{1,6} [a-z]{1,4}") {
        let docs = tempfile::tempdir().unwrap();
        for ending in ["md", "mdx", "rst", "html", "txt"] {
            fs_err::write(docs.path().join(format!("a.{ending}")), &text).unwrap();
        }
        let library = Library::open(docs.path().join(".data"));
        let everything = Limits { min_score: 0.0, ..Limits::default() };
        let answer = library.ask(&Question { top_k: Some(20), ..Question::new(query) }, Some(docs.path()), &everything).unwrap();
        for citation in answer.citations {
            prop_assert!(citation.line >= 1 && citation.line <= text.lines().count().max(1), "{citation:?}");
            prop_assert!(!citation.section.is_empty());
            prop_assert!((0.0..=1.0).contains(&citation.score));
        }
    }
}
