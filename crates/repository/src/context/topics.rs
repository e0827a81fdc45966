//! Questions that a model's answer would want documents on, and those documents.

use schemars::JsonSchema;
use serde::Serialize;

use super::{IntegrationContext, RepoProfile};
use crate::{Documents, text};

/// How many topics and documents there are at most.
const MOST_TOPICS: usize = 8;
const MOST_DOCUMENTS: usize = 10;
/// How much of a document is shown.
const EXCERPT: usize = 600;

/// A question that documents should answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Topic {
    /// Its name.
    pub id: String,
    /// The search query.
    pub query: String,
    /// The reason.
    pub reasons: Vec<String>,
}

/// A passage of the documentation on a topic.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Document {
    /// Topic and place in the document.
    pub id: String,
    /// The topic.
    pub topic: String,
    /// The document.
    pub title: String,
    /// The document.
    pub path: String,
    /// The beginning of the passage.
    pub excerpt: String,
    /// How to cite it.
    pub citation: String,
    /// How well it fits.
    pub score: f64,
}

impl Topic {
    pub(super) fn new(id: impl Into<String>, query: impl Into<String>, reasons: Vec<String>) -> Self {
        Self { id: id.into(), query: query.into(), reasons }
    }
}

/// The topics of the workflow, in order.
pub(crate) fn workflow_topics(
    question: Option<&str>,
    profile: &RepoProfile,
    warnings: &[String],
    context: &IntegrationContext,
) -> Vec<Topic> {
    let mut topics = Vec::new();
    topics.extend(
        question.map(|question| Topic::new("user-question", question, vec!["User provided MCP question".to_owned()])),
    );
    for signal in profile.framework_signals.iter().take(3) {
        let query = format!("FluxLoop integration steps for {}", signal.name);
        topics.push(Topic::new(format!("framework-{}", signal.name), query, signal.rationale.clone()));
    }
    for runner in profile.runner_configs.iter().take(3) {
        let kind = &runner.runner_type;
        topics.push(Topic::new(
            format!("runner-{kind}"),
            format!("{kind} runner configuration details"),
            vec![runner.path.clone()],
        ));
    }
    if !warnings.is_empty() {
        topics.push(Topic::new("validation-warnings", "FluxLoop validation troubleshooting", warnings.to_vec()));
    }
    for file in context.files.iter().take(3) {
        let path = file.path();
        topics.push(Topic::new(
            format!("context-{path}"),
            format!("FluxLoop integration guidance for {path}"),
            vec![context.scope.clone()],
        ));
    }
    if topics.is_empty() {
        topics.push(Topic::new("general-integration", "FluxLoop integration overview", Vec::new()));
    }
    topics.truncate(MOST_TOPICS);
    topics
}

/// Passages of the documentation on the topics, two for each topic. The document and the position in it identify a passage.
pub(crate) fn documents(topics: &[Topic], index: &dyn Documents) -> Vec<Document> {
    let mut found: Vec<Document> = Vec::new();
    for topic in topics {
        for passage in index.best(&topic.query, 2) {
            let citation = format!("ref:{}", passage.path.replace('/', "_"));
            let same = |known: &Document| {
                known.topic == topic.id
                    && known.path == passage.path
                    && known.id.ends_with(&format!("-{}", passage.number))
            };
            if found.len() < MOST_DOCUMENTS && !found.iter().any(same) {
                found.push(Document {
                    id: format!("{}-{}", topic.id, passage.number),
                    topic: topic.id.clone(),
                    title: passage.path.clone(),
                    path: passage.path,
                    excerpt: text::shortened(&passage.text, EXCERPT).trim_end_matches('…').to_owned(),
                    citation,
                    score: passage.score,
                });
            }
        }
    }
    found
}
