//! The server that the suite talks to: the fixture, or the bridge with the fixture behind it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::leg::Programs;

/// The way from the suite to the fixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// There is nothing between them.
    Direct,
    /// `gladhand bridge`, which speaks this revision to the fixture behind it.
    Bridged(Behind, &'static str),
}

/// Where the fixture behind the bridge is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    Stdio,
    Http,
}

impl Behind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

/// Processes that run until this is dropped, and the URL of what the suite is to talk to.
#[derive(Debug)]
pub(crate) struct Server {
    processes: Vec<Child>,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(programs: &Programs, fixture: &Path, way: Way, output: &Path) -> Result<Self> {
        let mut server = Self { processes: Vec::new(), url: String::new() };
        match way {
            Way::Direct => server.fixture(fixture, output)?,
            Way::Bridged(Behind::Stdio, spoken) => {
                server.bridge(programs, spoken, &[Path::new("--"), fixture], output)?
            }
            Way::Bridged(Behind::Http, spoken) => {
                server.fixture(fixture, output)?;
                let url = PathBuf::from(&server.url);
                server.bridge(programs, spoken, &[&url], output)?;
            }
        }
        // The suite wants the name to see that the server is of this machine.
        server.url = server.url.replace("127.0.0.1", "localhost");
        Ok(server)
    }

    /// The fixture on a free port, which it says on its first line.
    fn fixture(&mut self, program: &Path, output: &Path) -> Result<()> {
        let log = fs::File::create(output.join("server.log")).context("could not make the server's log")?;
        let mut command = Command::new(program);
        command.arg("127.0.0.1:0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let stdout = self.spawn(command)?.stdout.take().context("the server has no output")?;
        self.url = url_in(stdout)?;
        Ok(())
    }

    /// The bridge on a free port, which it says among the first lines of its log.
    fn bridge(&mut self, programs: &Programs, spoken: &str, behind: &[&Path], output: &Path) -> Result<()> {
        let mut command = Command::new(&programs.gladhand);
        command.args(["bridge", "--http", "127.0.0.1:0", "--as", &format!("mcp@{spoken}"), "--data-dir"]);
        command.arg(output.join("data")).args(behind);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let stderr = self.spawn(command)?.stderr.take().context("the bridge has no log")?;
        self.url = url_in(stderr)?;
        Ok(())
    }

    fn spawn(&mut self, mut command: Command) -> Result<&mut Child> {
        let child = command.spawn().with_context(|| format!("could not start {command:?}"))?;
        self.processes.push(child);
        self.processes.last_mut().context("it was just put there")
    }
}

/// The first URL that a process writes. Later output is read and discarded.
fn url_in(output: impl Read + Send + 'static) -> Result<String> {
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let url = lines.find_map(|line| line.find("http://").map(|at| line[at..].trim().to_owned()));
    std::thread::spawn(move || lines.for_each(drop));
    match url {
        Some(url) => Ok(url),
        None => bail!("the server did not say where it listens"),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The bridge first: it would miss what is behind it.
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
