//! Judges a client: starts it with a scripted server, which records what the client sends.
//!
//! The client starts the server, so the server is this program in another process ([`play`]). It writes every line of the
//! exchange into a file as it happens, and this process judges the file when the client has ended.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use gladhand_check::{Exchange, Line, ScriptedServer, ServerScript, Subject};
use gladhand_core::negotiation::Side;
use gladhand_process::child::{ChildPeer, Manner};
use gladhand_process::surroundings::Surroundings;
use gladhand_redaction::{redact, redact_words};
use serde_json::{Value, json};

use crate::commands::open::Waiting;
use crate::commands::{CommandError, own_program};
use crate::config::env;
use crate::exit::Exit;
use gladhand_client::upstream::Speak;
use gladhand_server::signals::{self, Signals};

use super::summary::Summary;
use super::{CheckArgs, finish};

/// The word in the command of a client that stands for the command of the server.
const PLACEHOLDER: &str = "{server}";

/// How much longer than the limit for one answer a client may run.
const SESSION: u64 = 4;

/// The longest line that the scripted server reads, and the most that an exchange may hold.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// Judges a client with every script of the dialects.
pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, CommandError> {
    if args.command.is_empty() {
        return Err(CommandError::usage(anyhow!("give the command of the client behind `--`")));
    }
    if !args.command.iter().any(|word| word.contains(PLACEHOLDER)) {
        let error = anyhow!("the command of the client does not say where the command of the server belongs");
        let hint = "write {server} there, as in `gladhand check --client -- my-client --connect {server}`";
        return Err(CommandError::usage(error).hint(hint));
    }
    let speak =
        Speak::parse(&args.only).ok_or_else(|| CommandError::usage(anyhow!("there is no client `{}`", args.only)))?;
    let scripts: Vec<_> = ServerScript::ALL.into_iter().filter(|script| is_wanted(*script, speak)).collect();
    let limit = Duration::from_secs(args.timeout * SESSION);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exchanges = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let waiting = Waiting::tell(&format!("running the client with {} servers …", scripts.len()));
        let judge = async {
            let mut exchanges = Vec::new();
            for script in &scripts {
                exchanges.extend(exchanges_with(*script, &args.command, limit).await?);
            }
            Ok::<_, CommandError>(exchanges)
        };
        let judged = tokio::select! {
            exchanges = judge => exchanges.map(Ok),
            stop = signals.next() => Ok(Err(stop)),
        };
        drop(waiting);
        judged
    })?;
    match exchanges {
        // A client that does not speak a dialect says nothing, or something else.
        Ok(mut exchanges) => {
            exchanges.retain(opens);
            let target = redact_words(&args.command).join(" ");
            finish(&Summary::of(target, Subject::Client, exchanges), args)
        }
        Err(stop) => Ok(signals::exit_status(stop).into()),
    }
}

fn is_wanted(script: ServerScript, speak: Speak) -> bool {
    match speak {
        Speak::Auto => true,
        Speak::Mcp => script.dialect() == "mcp",
        Speak::As(dialect, _) => script.dialect() == dialect.name,
    }
}

/// Whether the first line of the client is of the dialect of the server.
fn opens(exchange: &Exchange) -> bool {
    let Some(first) = exchange.lines.iter().find(|line| line.from == Side::Client) else { return false };
    let message: Value = serde_json::from_str(&first.text).unwrap_or_default();
    let method = message["method"].as_str();
    match exchange.dialect.as_str() {
        "mcp" => method.is_some_and(|method| method != "rpc.handshake"),
        "loaf" => method == Some("rpc.handshake"),
        "a2e" => message["type"] == "handshake/req",
        "fluxloop" => message["type"] == "handshake",
        _ => false,
    }
}

/// Runs the client with one scripted server, until it ends or its time is over. A client may start the server more than
/// once, for example to find out what it speaks; each process is an exchange of its own.
async fn exchanges_with(
    script: ServerScript,
    command: &[String],
    limit: Duration,
) -> Result<Vec<Exchange>, CommandError> {
    let file = ExchangeFile::new()?;
    let server =
        [own_program()?, "check".to_owned(), "--play".to_owned(), script.word().to_owned(), file.path()?.to_owned()];
    let words = with_server(command, &server);
    let hidden = env::never_passed_on();
    let hidden: Vec<_> = hidden.iter().map(String::as_str).collect();
    let child = ChildPeer::start(&words, &Surroundings::default(), &hidden, |_: &str| {}).await;
    let mut child = child.map_err(|source| {
        let program = words.first().cloned().unwrap_or_default();
        CommandError::new(Exit::PeerFailed, anyhow!("could not start `{program}`: {source}")).code("not_started")
    })?;
    // Its output is its own affair, but it must be read, or the client would wait.
    drop(child.take_stdin());
    let read = async {
        let mut buffer = Vec::new();
        while child.read(&mut buffer).await.is_ok_and(|count| count > 0) {
            buffer.clear();
        }
    };
    let _: Result<(), _> = tokio::time::timeout(limit, read).await;
    child.end(Manner::Hurried).await;
    let exchange = |lines| {
        let (dialect, version) = (script.dialect().to_owned(), script.version().to_owned());
        Exchange { dialect, version, name: script.word().to_owned(), lines, is_complete: true, is_http: false }
    };
    Ok(file.sessions()?.into_iter().map(exchange).collect())
}

/// The command with the server in it: a word of its own becomes several words, and within a word it is quoted for a shell.
fn with_server(command: &[String], server: &[String]) -> Vec<String> {
    let quoted = || {
        let words: Vec<_> = server.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        words.join(" ")
    };
    let replaced = |word: &String| match word.as_str() {
        PLACEHOLDER => server.to_vec(),
        other if other.contains(PLACEHOLDER) => vec![other.replace(PLACEHOLDER, &quoted())],
        other => vec![other.to_owned()],
    };
    command.iter().flat_map(replaced).collect()
}

/// Is the scripted server: answers stdin on stdout, and writes the exchange into a file.
pub(super) fn play(script: &str, file: &Path) -> Result<ExitCode, CommandError> {
    let script = ServerScript::named(script)
        .ok_or_else(|| CommandError::usage(anyhow!("there is no scripted server `{script}`")))?;
    let mut log = fs_err::OpenOptions::new().append(true).open(file)?;
    let (mut server, started) = (ScriptedServer::new(script), Instant::now());
    let process = std::process::id();
    let mut note = |from: Side, text: &str| {
        let ms = crate::commands::open::draw::millis(started.elapsed());
        writeln!(log, "{}", json!({ "process": process, "from": from, "ms": ms, "text": redact(text) }))
    };
    let mut stdout = std::io::stdout().lock();
    // A client that sends more is not worth more memory.
    for line in BufReader::new(std::io::stdin().lock().take(MOST_BYTES)).lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        note(Side::Client, &line)?;
        for answer in server.answer(&line) {
            note(Side::Server, &answer)?;
            writeln!(stdout, "{answer}")?;
        }
        stdout.flush()?;
    }
    Ok(Exit::Success.into())
}

/// A new file for an exchange, deleted when it is dropped.
struct ExchangeFile(PathBuf);

impl ExchangeFile {
    fn new() -> Result<Self, CommandError> {
        let mut random = [0; 12];
        gladhand_system::fill_random(&mut random);
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = std::env::temp_dir().join(format!("gladhand-check-{name}"));
        let mut options = fs_err::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(options.options_mut(), 0o600);
        options.open(&path)?;
        Ok(Self(path))
    }

    fn path(&self) -> Result<&str, CommandError> {
        self.0.to_str().ok_or_else(|| anyhow!("the folder for temporary files is not UTF-8").into())
    }

    /// The lines of each process that wrote into the file, in the order of their first lines.
    fn sessions(&self) -> Result<Vec<Vec<Line>>, CommandError> {
        let file: File = fs_err::File::open(&self.0)?.into();
        let read = |line: std::io::Result<String>| {
            let entry: Value = serde_json::from_str(&line.ok()?).ok()?;
            let from = if entry["from"] == "client" { Side::Client } else { Side::Server };
            let (text, ms) = (entry["text"].as_str()?.to_owned(), entry["ms"].as_f64()?);
            Some((entry["process"].as_u64()?, Line { from, text, ms, status: None }))
        };
        let mut sessions: Vec<(u64, Vec<Line>)> = Vec::new();
        for (process, line) in BufReader::new(file.take(2 * MOST_BYTES)).lines().map_while(read) {
            match sessions.iter_mut().find(|(known, _)| *known == process) {
                Some((_, lines)) => lines.push(line),
                None => sessions.push((process, vec![line])),
            }
        }
        Ok(sessions.into_iter().map(|(_, lines)| lines).collect())
    }
}

impl Drop for ExchangeFile {
    fn drop(&mut self) {
        // A file that is gone already is gone.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_stands_where_the_placeholder_is() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let server = words(&["glad hand", "check"]);
        let command = words(&["client", "{server}", "-x"]);
        assert_eq!(with_server(&command, &server), words(&["client", "glad hand", "check", "-x"]));
        let command = words(&["client", "--connect={server}"]);
        assert_eq!(with_server(&command, &server), words(&["client", "--connect='glad hand' 'check'"]));
    }
}
