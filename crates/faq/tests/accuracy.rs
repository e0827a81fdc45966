//! The accuracy of the answers: questions about our own documentation and about a small handbook in several formats, with
//! the section that answers each and words that the extract must contain, and questions without an answer.
//!
//! The limit applies to the whole set, so that a change of the ranking is judged by its effect on all questions.

use std::path::PathBuf;

use gladhand_faq::{Answer, Context, Library, Limits, NOT_FOUND, Question};

/// The share of questions with an answer that must be answered correctly.
const BAR: f64 = 0.9;

/// A question, the section that answers it best, and words of the extract.
type Expected = (&'static str, &'static str, &'static str, &'static str);

/// Questions about `tests/fixtures/handbook`. The first nine were also put to the reference server, over the four Markdown files alone: its
/// extracts have these words in six, and it also answers questions that the handbook does not answer.
const HANDBOOK: [Expected; 28] = [
    ("How do I integrate FastAPI?", "guides/fastapi.md", "FastAPI recipe", "include_router"),
    ("fastapi", "guides/fastapi.md", "FastAPI recipe", "include_router"),
    ("W200", "reference/errors.md", "Retry policy", "never retried"),
    ("token missing", "guides/fastapi.md", "Troubleshooting", "401"),
    ("RETRY POLICY", "reference/errors.md", "Retry policy", "never retried"),
    ("limit option", "reference/scheduling.md", "Limits", "At most 50"),
    ("scheduler due jobs order", "reference/scheduling.md", "Scheduling", "order of their due time"),
    ("install from source", "guides/install.md", "From source", "make build"),
    ("how many jobs run at once", "reference/scheduling.md", "Limits", "At most 50"),
    ("Which error code means that a widget was not found?", "reference/errors.md", "Error codes", "W200"),
    ("what happens to the jobs of a paused queue", "reference/scheduling.md", "Scheduling", "keeps its jobs"),
    ("How do I set the WIDGET_TOKEN?", "guides/fastapi.md", "Configure", "WIDGET_TOKEN"),
    ("widget token", "guides/fastapi.md", "Configure", "WIDGET_TOKEN"),
    ("why do I get a 401", "guides/fastapi.md", "Troubleshooting", "token is missing"),
    ("how to run it in docker", "reference/deployment.rst", "Docker", "docker run -v"),
    ("Where is the state kept and how can I back it up?", "reference/deployment.rst", "Backups", "widgetd backup"),
    ("restore a backup", "reference/deployment.rst", "Restoring", "put the copy in place"),
    ("pagination", "site/api.html", "Pagination", "pages of 100"),
    ("How many requests may a client send per second?", "site/api.html", "Rate limits", "20 requests per second"),
    ("Retry-After header", "site/api.html", "Rate limits", "429"),
    ("are webhooks signed?", "site/api.html", "Webhooks", "HMAC-SHA256"),
    ("force dark mode", "site/theming.mdx", "Dark mode", "theme: \"dark\""),
    ("dashboard.yaml", "site/theming.mdx", "Dark mode", "dashboard.yaml"),
    ("how large may the logo be", "site/theming.mdx", "Your own logo", "64 kB"),
    ("Is widget.ini still read?", "upgrade-notes.txt", "UPGRADING FROM 1.X", "no longer read"),
    ("what became of --pidfile", "upgrade-notes.txt", "2.1 Removed Flags", "--pidfile are gone"),
    ("convert the old config", "upgrade-notes.txt", "UPGRADING FROM 1.X", "migrate-config"),
    ("colors of the dashboard", "site/theming.mdx", "Theming", "colours"),
];

/// Questions that the handbook does not answer, though it has some of their words.
const NOT_IN_HANDBOOK: [&str; 9] = [
    "zebra quantum",
    "???",
    "How do I bake sourdough bread?",
    "What does a subscription cost?",
    "Kubernetes cluster autoscaling",
    "Who is the president of France?",
    "terms of sale",
    "how do I train a neural network on a GPU",
    "import Preview from components",
];

/// Questions about our own documentation.
const OWN: [Expected; 16] = [
    ("exit codes", "docs/stability.md", "Exit codes", "the command line or the configuration is wrong"),
    ("what is an agreement", "ARCHITECTURE.md", "Words", "terms that both offers have in common"),
    ("Where do I add a dialect?", "ARCHITECTURE.md", "Adding a dialect", "REGISTRY"),
    ("Where is the configuration file looked for?", "docs/configuration.md", "Configuration", "GLADHAND_CONFIG"),
    ("GLADHAND_MCP_TOKEN", "docs/commands.md", "Call", "is presented if"),
    ("How do I import servers from Claude Desktop?", "docs/configuration.md", "Other programs' files", "config import"),
    ("How do I keep a secret out of the file?", "docs/configuration.md", "Secrets", "secret"),
    ("which effects can a policy rule have", "docs/policy.md", "Rules", "allow"),
    ("path within a folder condition", "docs/policy.md", "Conditions", "within"),
    ("what is written into the audit log", "docs/policy.md", "Audit", "Arguments and results are written down"),
    ("which platforms are supported", "docs/stability.md", "Platforms", "Linux"),
    ("How does an A2E session open?", "docs/dialects.md", "A2E 1.0", "handshake/req"),
    ("loaf rpc handshake", "docs/dialects.md", "loaf RPC 1.0.0", "rpc.handshake"),
    ("What is the life of a call?", "ARCHITECTURE.md", "The life of a call", "Bytes"),
    ("serve a tool of my own", "docs/embedding.md", "Serve a tool of your own", "tool"),
    ("invariants", "ARCHITECTURE.md", "Invariants", "I/O"),
];

/// Questions that our own documentation does not answer.
const NOT_IN_OWN: [&str; 5] = [
    "How do I bake bread?",
    "What is the price of a subscription?",
    "PostgreSQL replication lag",
    "How do I cancel my gym membership?",
    "quarterly revenue forecast",
];

fn handbook() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/handbook")
}

/// Why an answer is wrong, or nothing.
fn fault(answer: &Answer, (question, path, section, words): Expected) -> Option<String> {
    let best = answer.citations.iter().max_by(|a, b| a.score.total_cmp(&b.score));
    let extract = answer.answer.split("### Related").next().unwrap_or_default();
    let right = best.is_some_and(|best| best.path == path && best.section == section) && extract.contains(words);
    let got = best.map(|best| format!("{} {:?} {}", best.path, best.section, best.score));
    (!right).then(|| format!("{question}\n  wanted {path} {section:?} {words:?}\n  got {got:?}\n{extract}\n"))
}

#[test]
fn most_questions_find_their_answer() {
    let data = tempfile::tempdir().unwrap();
    let library = Library::open(data.path());
    let folder = handbook();
    let asked = HANDBOOK.map(|expected| (expected, Some(folder.as_path())));
    let own = OWN.map(|expected| (expected, None));
    let all: Vec<_> = asked.into_iter().chain(own).collect();
    let faults: Vec<String> = all
        .iter()
        .filter_map(|(expected, folder)| {
            let answer = library.ask(&Question::new(expected.0), *folder, &Limits::default()).unwrap();
            fault(&answer, *expected)
        })
        .collect();
    let right = 1.0 - faults.len() as f64 / all.len() as f64;
    println!("{:.1} % of {} questions are answered right\n{}", 100.0 * right, all.len(), faults.join("\n"));
    assert!(right >= BAR, "{} of {} are wrong:\n{}", faults.len(), all.len(), faults.join("\n"));
}

#[test]
fn questions_without_an_answer_find_nothing() {
    let data = tempfile::tempdir().unwrap();
    let library = Library::open(data.path());
    let folder = handbook();
    let asked = NOT_IN_HANDBOOK.map(|question| (question, Some(folder.as_path())));
    let own = NOT_IN_OWN.map(|question| (question, None));
    for (question, folder) in asked.into_iter().chain(own) {
        let answer = library.ask(&Question::new(question), folder, &Limits::default()).unwrap();
        let nothing = Answer {
            answer: NOT_FOUND.to_owned(),
            citations: Vec::new(),
            score: 0.0,
            chunks_used: 0,
            warnings: Vec::new(),
        };
        assert_eq!(answer, nothing, "{question}");
    }
}

#[test]
fn the_minimum_score_separates_questions_with_and_without_answers() {
    let data = tempfile::tempdir().unwrap();
    let library = Library::open(data.path());
    let folder = handbook();
    let everything = Limits { min_score: 0.0, ..Limits::default() };
    let scores = |questions: &[&str], folder| {
        let mut scores: Vec<f64> = questions
            .iter()
            .map(|question| library.ask(&Question::new(*question), folder, &everything).unwrap().score)
            .collect();
        scores.sort_by(f64::total_cmp);
        scores
    };
    let there = [
        scores(&HANDBOOK.map(|expected| expected.0), Some(folder.as_path())),
        scores(&OWN.map(|expected| expected.0), None),
    ];
    let absent = [scores(&NOT_IN_HANDBOOK, Some(folder.as_path())), scores(&NOT_IN_OWN, None)];
    println!("there: {there:?}\nnot there: {absent:?}");
    let least = Limits::default().min_score;
    assert!(absent.concat().iter().all(|score| *score < least), "questions without an answer reach {absent:?}");
    let reached = there.concat().iter().filter(|score| **score >= least).count();
    assert!(reached as f64 >= BAR * there.concat().len() as f64, "questions with an answer reach only {there:?}");
}

#[test]
fn the_framework_of_the_asker_comes_first() {
    let data = tempfile::tempdir().unwrap();
    let docs = tempfile::tempdir().unwrap();
    for name in ["Django", "FastAPI", "Flask"] {
        let text = format!("# {name}\n\nAdd the middleware to {name} and restart.\n");
        fs_err::write(docs.path().join(format!("{name}.md")), text).unwrap();
    }
    let library = Library::open(data.path());
    let ask = |framework: Option<&str>| {
        let context = Some(Context { detected_framework: framework.map(str::to_owned) });
        let question = Question { context, top_k: Some(1), ..Question::new("how do I add the middleware") };
        library.ask(&question, Some(docs.path()), &Limits::default()).unwrap().citations[0].path.clone()
    };
    assert_eq!(ask(None), "Django.md");
    assert_eq!(ask(Some("flask")), "Flask.md");
    assert_eq!(ask(Some("fastapi")), "FastAPI.md");
}

#[test]
fn the_example_of_the_help_of_repo_faq_is_answered() {
    let data = tempfile::tempdir().unwrap();
    let answer = Library::open(data.path()).ask(&Question::new("How are secrets kept?"), None, &Limits::default());
    let expected = ("How are secrets kept?", "docs/configuration.md", "Secrets", "kept in an encrypted file");
    assert_eq!(fault(&answer.unwrap(), expected), None);
}

#[test]
fn the_example_of_the_protocol_page_is_answered_where_the_folder_has_the_answer() {
    let (data, docs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let write = |path: &str, text: &str| {
        let path = docs.path().join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    };
    write(
        "packages/website/docs-sdk/integration/fastapi.md",
        "# FastAPI\n\n## Installation\n\nInstall the package and add the middleware to the application.\n\n## Traces\n\nEach request is a trace.\n",
    );
    write("packages/website/docs-sdk/integration/express.md", "# Express\n\n## Installation\n\nInstall the package.\n");
    write("packages/website/docs-cli/start.md", "# Start\n\n## Integration\n\nIntegrate the tool into any project.\n");
    let library = Library::open(data.path());
    let answer =
        library.ask(&Question::new("How do I integrate FastAPI?"), Some(docs.path()), &Limits::default()).unwrap();
    let best = answer.citations.iter().max_by(|a, b| a.score.total_cmp(&b.score)).unwrap();
    assert_eq!(
        (best.path.as_str(), best.section.as_str()),
        ("packages/website/docs-sdk/integration/fastapi.md", "Installation")
    );
    assert!(answer.answer.starts_with("Install the package and add the middleware"), "{}", answer.answer);
}
