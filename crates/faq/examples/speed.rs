//! How fast answers come: makes a folder of 3,000 sections and asks about it. `speed [SECTIONS]`
//!
//! Build it with optimisations to see figures that mean something.

use std::time::Instant;

use gladhand_faq::{Library, Limits, Question};

/// Words of the generated documents, common ones first.
const WORDS: [&str; 40] = [
    "the",
    "server",
    "a",
    "client",
    "request",
    "is",
    "session",
    "token",
    "to",
    "configuration",
    "file",
    "of",
    "call",
    "error",
    "when",
    "limit",
    "policy",
    "and",
    "queue",
    "retry",
    "timeout",
    "header",
    "in",
    "schema",
    "upstream",
    "dialect",
    "agreement",
    "audit",
    "profile",
    "handshake",
    "stream",
    "proxy",
    "cache",
    "index",
    "secret",
    "keyring",
    "socket",
    "metric",
    "trace",
    "plugin",
];

/// How many questions are asked, each twice.
const QUESTIONS: usize = 2000;

#[expect(clippy::print_stdout, reason = "an example shows something")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sections: usize = std::env::args().nth(1).map_or(Ok(3000), |number| number.parse())?;
    let root = tempfile::tempdir()?;
    let docs = root.path().join("docs");
    fs_err::create_dir(&docs)?;
    let mut chance = Chance(1);
    for file in 0..sections.div_ceil(10) {
        let mut text = format!("# Guide {file}\n\n");
        for section in 0..10 {
            text.push_str(&format!("## {} {} {section}\n\n", chance.word(), chance.word()));
            for _ in 0..4 {
                let sentence: Vec<&str> = (0..18).map(|_| chance.word()).collect();
                text.push_str(&format!("{} number{}.\n\n", sentence.join(" "), chance.number(5000)));
            }
        }
        fs_err::write(docs.join(format!("guide-{file}.md")), text)?;
    }

    let limits = Limits::default();
    let began = Instant::now();
    let library = Library::open(root.path().join("data"));
    library.ask(&Question::new("how long is the timeout of a session?"), Some(&docs), &limits)?;
    println!("{sections} sections, first answer   {:>9.1?}", began.elapsed());
    let began = Instant::now();
    let library = Library::open(root.path().join("data"));
    library.ask(&Question::new("how long is the timeout of a session?"), Some(&docs), &limits)?;
    println!("first answer of another run   {:>9.1?}", began.elapsed());

    let questions: Vec<Question> = (0..QUESTIONS)
        .map(|_| {
            let words = [chance.word(), chance.word(), chance.word()];
            Question::new(format!(
                "How does the {} {} of number{} use {}?",
                words[0],
                words[1],
                chance.number(5000),
                words[2]
            ))
        })
        .collect();
    for round in ["new questions ", "known questions"] {
        let mut times = Vec::new();
        let began = Instant::now();
        for question in &questions {
            let asked = Instant::now();
            library.ask(question, Some(&docs), &limits)?;
            times.push(asked.elapsed());
        }
        let rate = QUESTIONS as f64 / began.elapsed().as_secs_f64();
        times.sort();
        println!(
            "{round} {rate:>8.0} a second; half within {:.1?}, 99 % within {:.1?}",
            times[QUESTIONS / 2],
            times[QUESTIONS * 99 / 100]
        );
    }
    Ok(())
}

/// Numbers that are the same in every run.
struct Chance(u64);

impl Chance {
    fn number(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// A word; those at the beginning of the list come more often.
    fn word(&mut self) -> &'static str {
        let most = WORDS.len() as u64;
        let (one, other) = (self.number(most), self.number(most));
        WORDS[one.min(other) as usize]
    }
}
