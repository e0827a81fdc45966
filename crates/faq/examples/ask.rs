//! Asks one question: `ask QUESTION [FOLDER]`. Without a folder, our own documentation answers.

use gladhand_faq::{Library, Limits, Question};

#[expect(clippy::print_stdout, reason = "an example shows something")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let question = Question::new(arguments.next().unwrap_or_default());
    let folder = arguments.next().map(std::path::PathBuf::from);
    let library = Library::open(std::env::temp_dir().join("gladhand-faq-example"));
    let answer = library.ask(&question, folder.as_deref(), &Limits::default())?;
    println!("{}", serde_json::to_string_pretty(&answer)?);
    println!("{}", answer.answer);
    Ok(())
}
