//! Answers without a person: a form filled in with what it suggests itself.

use std::collections::HashSet;

use gladhand_core::operations::{Answered, Failure, FailureKind, Question, QuestionKind};
use gladhand_core::wire::{Members, json};

/// Accepts a form with the defaults that its schema names. Anything else, or a form that wants more than it suggests,
/// is not answered.
pub fn accept_defaults(question: &Question) -> Answered {
    let unanswered = |why: &str| Failure::new(FailureKind::Unanswered, why);
    let params = Members::of(&question.params).unwrap_or_default();
    let is_form = question.kind == QuestionKind::Elicit && params.str("mode").is_none_or(|mode| mode == "form");
    if !is_form {
        return Err(unanswered("only forms have defaults"));
    }
    let schema = params.object("requestedSchema").unwrap_or_default();
    let properties = schema.object("properties").unwrap_or_default();
    let defaults = properties.iter().filter_map(|(name, property)| {
        let default = Members::of(property)?.raw("default")?;
        Some((name.to_owned(), default))
    });
    let defaults: Vec<_> = defaults.collect();
    let required = schema.raw("required").map(|names| serde_json::from_str::<Vec<String>>(names.get()));
    let required = required.and_then(Result::ok).unwrap_or_default();
    let given: HashSet<&str> = defaults.iter().map(|(name, _)| name.as_str()).collect();
    if required.iter().any(|name| !given.contains(name.as_str())) {
        return Err(unanswered("the form wants more than it suggests"));
    }
    let content: Vec<_> =
        defaults.iter().map(|(name, value)| format!("{}:{}", json::to_raw(name).get(), value.get())).collect();
    Ok(json::raw(format!(r#"{{"action":"accept","content":{{{}}}}}"#, content.join(","))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_form_is_filled_in_with_its_default_values() {
        let schema = json!({"type": "object", "properties": {
            "name": {"type": "string", "default": "Jo"}, "age": {"type": "integer", "default": 3}, "free": {"type": "string"},
        }, "required": ["name"]});
        let answer = accept_defaults(&Question::form("who?", &schema)).unwrap();
        let answer: serde_json::Value = serde_json::from_str(answer.get()).unwrap();
        assert_eq!(answer, json!({"action": "accept", "content": {"name": "Jo", "age": 3}}));
    }

    #[test]
    fn a_form_with_many_required_members_is_answered_soon() {
        let names: Vec<_> = (0..60_000).map(|number| format!("m{number}")).collect();
        let properties: serde_json::Map<_, _> =
            names.iter().map(|name| (name.clone(), json!({"default": 1}))).collect();
        let schema = json!({"properties": properties, "required": names});
        let question = Question::form("who?", &schema);
        let begun = std::time::Instant::now();
        assert!(accept_defaults(&question).is_ok());
        assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
    }

    #[test]
    fn a_question_without_defaults_stays_unanswered() {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        let url = json!({"mode": "url", "url": "https://example.org", "message": "go"});
        for question in [Question::form("who?", &schema), Question::elicit(&url), Question::roots()] {
            assert_eq!(accept_defaults(&question).unwrap_err().kind, FailureKind::Unanswered);
        }
    }
}
