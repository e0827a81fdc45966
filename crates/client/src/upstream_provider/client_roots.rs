//! Which folders a client over a network may name as its roots to a server that runs on this machine.
//!
//! A file server may serve the roots of its client in place of the folders that it was started with. A client over a
//! network must not choose the folders of this machine in that way, so its answer is limited to the folders that the
//! operator allows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gladhand_core::operations::Answered;
use gladhand_core::wire::{json, values};
use serde_json::{Value, json};
use url::Url;

/// The folders that roots of a client may lie in; `None`: they may lie anywhere.
pub(super) type Allowed = Option<Arc<[PathBuf]>>;

/// The answer to `roots/list`, with allowed folders only. The answer is rebuilt from the checked members, because
/// another parser may accept input that this one ignores: a lone surrogate, a huge number or a second `roots`.
pub(super) async fn held(answered: Answered, allowed: Arc<[PathBuf]>) -> Answered {
    let answer = answered?;
    let whole: Value = values::read(answer.get()).unwrap_or_else(|error| {
        tracing::info!(%error, "all roots of a client are left out: they cannot be read");
        Value::Null
    });
    let mut kept = Vec::new();
    for root in whole["roots"].as_array().into_iter().flatten() {
        let Some(uri) = root["uri"].as_str().and_then(|uri| Url::parse(uri).ok()) else { continue };
        let Some(place) = real(&uri).await.filter(|place| is_within(place, &allowed)) else {
            tracing::info!(root = %uri, "a root of a client is left out: the operator does not allow it");
            continue;
        };
        // The server receives the resolved path that was checked.
        let Ok(uri) = Url::from_file_path(&place) else { continue };
        let mut allowed = json!({"uri": uri.as_str()});
        if let Some(name) = root["name"].as_str() {
            allowed["name"] = name.into();
        }
        kept.push(allowed);
    }
    Ok(json::to_raw(&json!({"roots": kept})))
}

/// The place that a `file:` URI leads to, without links. A root of another kind is no folder of this machine, though a
/// server could take it for one.
async fn real(uri: &Url) -> Option<PathBuf> {
    if uri.scheme() != "file" {
        return None;
    }
    tokio::fs::canonicalize(uri.to_file_path().ok()?).await.ok()
}

fn is_within(place: &Path, allowed: &[PathBuf]) -> bool {
    allowed.iter().any(|folder| std::fs::canonicalize(folder).is_ok_and(|folder| place.starts_with(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_core::wire::RawValue;

    #[tokio::test]
    async fn only_roots_below_allowed_folders_and_no_links_out_of_them_reach_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(folder.path()).unwrap();
        for name in ["allowed/inner", "other"] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(base.join("other"), base.join("allowed/link")).unwrap();
        let uri = |name: &str| format!("file://{}/{name}", base.display());
        let asked = [
            uri("allowed/inner"),
            uri("allowed"),
            uri("other"),
            uri("allowed/link"),
            uri("allowed/../other"),
            uri("allowed/%2e%2e/other"),
            uri("allowed/absent"),
            "file:///".to_owned(),
            "FILE:///etc".to_owned(),
            "https://example.org/repository".to_owned(),
            "no URI".to_owned(),
        ];
        let roots: Vec<_> = asked.iter().map(|uri| json!({"uri": uri, "name": "n"})).collect();
        let answer = json::to_raw(&json!({"roots": roots, "_meta": {"a": 1}}));
        let held = held(Ok(answer), [base.join("allowed")].into()).await.unwrap();
        let held: Value = serde_json::from_str(held.get()).unwrap();
        let kept: Vec<_> = held["roots"].as_array().unwrap().iter().map(|root| root["uri"].as_str().unwrap()).collect();
        assert_eq!(kept, [&uri("allowed/inner"), &uri("allowed")]);
        assert_eq!(held["roots"][0], json!({"uri": uri("allowed/inner"), "name": "n"}));
    }

    #[tokio::test]
    async fn an_answer_that_other_readers_understand_differently_names_no_root() {
        for answer in [
            r#"{"roots":[{"uri":"file:///etc","name":"\ud800"}]}"#,
            r#"{"roots":[{"uri":"file:///etc"}],"x":1e999}"#,
            r#"{"roots":{"0":{"uri":"file:///etc"},"length":1}}"#,
            r#"{"roots":[{"uri":"x:/../../../etc"}]}"#,
            r#"{"roots":[],"roots":[{"uri":"file:///etc"}]}"#,
            r#"{"roots":[{"uri":"file:///etc"}],"roots":[]}"#,
            &format!(r#"{{"roots":[{{"uri":"file:///etc"}}],"deep":{}{}}}"#, "[".repeat(200), "]".repeat(200)),
            "[]",
            "null",
        ] {
            let answer = RawValue::from_string(answer.to_owned()).unwrap();
            let held = held(Ok(answer), [PathBuf::from("/nowhere")].into()).await.unwrap();
            assert_eq!(held.get(), r#"{"roots":[]}"#);
        }
    }
}
