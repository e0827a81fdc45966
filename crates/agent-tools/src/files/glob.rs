//! `glob_files`: finds files whose path matches a glob.

use gladhand_ignore_files::{glob, glob_set};

use super::grep::Search;
use crate::outcome::{Outcome, Problem, blocking};
use crate::tool_set::Job;

/// Runs the tool.
pub(crate) async fn run(job: &Job<'_>) -> Outcome {
    let Some(pattern) = job.input.word("pattern") else {
        return Err(Problem::plain("pattern must not be empty"));
    };
    let pattern = pattern.to_owned();
    let search = Search::new(job)?;
    blocking(move || {
        let globs = glob(&pattern).and_then(|glob| glob_set([glob]));
        let globs = globs.map_err(|error| Problem::plain(error.to_string()))?;
        let mut walk = search.walk(None)?;
        search.result(&mut walk, |path| path.strip_prefix(&search.place).is_ok_and(|below| globs.is_match(below)))
    })
    .await
}
