//! The programs of the agent's tools, on a leash.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;

use async_trait::async_trait;
use gladhand_agent_tools::{Channels, Held, Program, Starter};

use gladhand_process::leash;
use gladhand_process::leashed::{Kind, Leashed, NotHeld};

/// Starts programs on a leash.
#[derive(Debug)]
struct OnLeash;

/// How programs of tools are to be started, where we know better than the tools do.
pub(crate) fn starter() -> Option<Arc<dyn Starter>> {
    leash::is_enabled().then(|| Arc::new(OnLeash) as Arc<dyn Starter>)
}

#[async_trait]
impl Starter for OnLeash {
    async fn start(&self, program: Program<'_>, channels: Channels) -> io::Result<Arc<dyn Held>> {
        let kind = if channels.is_terminal() { Kind::Terminal } else { Kind::Plain };
        let command = [program.file.as_os_str()].into_iter().chain(program.arguments.iter().map(AsRef::as_ref));
        let channels = channels.three()?;
        let leashed = Leashed::start(command, kind, &channels, |builder| {
            builder.current_dir(program.folder).env_clear().envs(program.environment);
        });
        match leashed.await {
            Ok(leashed) => Ok(Arc::new(OnOne(leashed))),
            // A process without a leash is not started: users rely on being able to stop a model's commands.
            Err(NotHeld::NoLeash(error) | NotHeld::NotStarted(error)) => Err(error),
        }
    }
}

/// A program on its leash.
#[derive(Debug)]
struct OnOne(Leashed);

#[async_trait]
impl Held for OnOne {
    fn id(&self) -> Option<u32> {
        self.0.id()
    }

    fn terminate(&self) {
        self.0.terminate();
    }

    fn kill(&self) {
        self.0.kill();
    }

    async fn ended(&self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }

    async fn gone(&self) {
        self.0.gone().await;
    }

    fn is_gone(&self) -> bool {
        self.0.is_gone()
    }
}
