//! Converts the response of Exa to the result of the tool.

use gladhand_core::javascript;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

/// Maximum length of a page's text and of each highlight, in UTF-16 units.
const MAX_TEXT_UNITS: usize = 2000;
const MAX_HIGHLIGHT_UNITS: usize = 400;

/// The search results.
#[derive(Debug, Serialize)]
pub(super) struct SearchResults {
    total_results: usize,
    results: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    title: String,
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    highlights: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    highlight_scores: Vec<Number>,
}

/// Parses a response. Pages without a URL are left out.
pub(super) fn read(answer: &[u8]) -> serde_json::Result<SearchResults> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default, rename = "requestId")]
        request_id: Option<String>,
        #[serde(default)]
        results: Vec<Value>,
    }
    let answer: Answer = serde_json::from_slice(answer)?;
    let results: Vec<Row> = answer.results.iter().filter_map(row).collect();
    Ok(SearchResults { total_results: results.len(), results, request_id: answer.request_id })
}

fn row(page: &Value) -> Option<Row> {
    let word = |name: &str| {
        let word = javascript::trim(page.get(name)?.as_str()?);
        (!word.is_empty()).then(|| word.to_owned())
    };
    // Some members are either in the page or in its `contents`.
    let either = |names: &[&str]| {
        let places = [Some(page), page.get("contents")];
        places.into_iter().flatten().find_map(|place| names.iter().find_map(|name| place.get(name)))
    };
    let url = word("url")?;
    let mut highlights: Vec<String> = Vec::new();
    for highlight in either(&["highlights"]).and_then(Value::as_array).into_iter().flatten() {
        let highlight =
            javascript::prefix(javascript::trim(highlight.as_str().unwrap_or_default()), MAX_HIGHLIGHT_UNITS)
                .to_owned();
        if !highlight.is_empty() && !highlights.contains(&highlight) {
            highlights.push(highlight);
        }
    }
    let scores = either(&["highlight_scores", "highlightScores"]).and_then(Value::as_array);
    let text = either(&["text"]).and_then(Value::as_str).map(javascript::trim).filter(|text| !text.is_empty());
    Some(Row {
        title: word("title").unwrap_or_else(|| url.clone()),
        score: page.get("score").and_then(Value::as_number).cloned(),
        author: word("author"),
        published_date: word("publishedDate"),
        text: text.map(|text| javascript::prefix(text, MAX_TEXT_UNITS).to_owned()),
        highlights,
        highlight_scores: scores.into_iter().flatten().filter_map(Value::as_number).cloned().collect(),
        url,
    })
}
