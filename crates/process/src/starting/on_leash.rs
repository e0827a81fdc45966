//! Programs on a leash.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::process::Command;

use super::{Channels, Family, Held, Program, Signal, Starter};
use crate::leash;
use crate::leashed::{Kind, Leashed, NotHeld};

/// Starts programs on a leash: no descendant outlives this process, however it ends.
#[derive(Debug, Clone, Copy)]
pub struct OnLeash {
    /// Whether programs are started without a leash if there is none.
    falls_back: bool,
}

impl OnLeash {
    /// Starts programs on a leash or not at all: for commands of a model, which the user must be able to stop.
    pub fn always() -> Self {
        Self { falls_back: false }
    }

    /// Starts programs on a leash, or as a [`Family`] if there is none.
    pub fn or_family() -> Self {
        Self { falls_back: true }
    }
}

#[async_trait]
impl Starter for OnLeash {
    async fn start(&self, program: Program<'_>, channels: Channels) -> io::Result<Arc<dyn Held>> {
        if self.falls_back && !leash::is_enabled() {
            return Family.start(program, channels).await;
        }
        let kind = if channels.is_terminal() { Kind::Terminal } else { Kind::Plain };
        let command = [program.file].into_iter().chain(program.arguments.iter().map(AsRef::as_ref));
        let copies = channels.copies()?;
        let surround = |builder: &mut Command| {
            builder.env_clear().envs(program.environment);
            if let Some(folder) = program.folder {
                builder.current_dir(folder);
            }
        };
        match Leashed::start(command, kind, &copies, surround, None).await {
            Ok(leashed) => Ok(Arc::new(leashed)),
            Err(NotHeld::NoLeash(error)) if self.falls_back => {
                tracing::warn!(%error, "there is no leash: what this process starts may outlive us if we are killed");
                Family.start(program, channels).await
            }
            Err(NotHeld::NoLeash(error) | NotHeld::NotStarted(error)) => Err(error),
        }
    }
}

#[async_trait]
impl Held for Leashed {
    fn id(&self) -> Option<u32> {
        self.id()
    }

    fn signal(&self, signal: Signal) {
        match signal {
            Signal::Terminate => self.terminate(),
            Signal::Interrupt => self.interrupt(),
            Signal::Kill => self.kill(),
        }
    }

    async fn ended(&self) -> io::Result<ExitStatus> {
        self.wait().await
    }

    async fn gone(&self) {
        self.gone().await;
    }

    fn is_gone(&self) -> bool {
        self.is_gone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::pipes;
    use crate::starting::Environment;

    /// The test program cannot become a leash, because its `main` is not ours. So each leash fails to start.
    #[tokio::test]
    async fn without_a_leash_a_program_is_a_family_or_is_not_started() {
        let environment = Environment::new();
        let arguments = ["-c".into(), "exit 7".into()];
        let program =
            Program { file: "/bin/sh".as_ref(), arguments: &arguments, folder: None, environment: &environment };
        for is_enabled in [false, true] {
            if is_enabled {
                assert!(leash::enable().is_none());
            }
            assert_eq!(leash::is_enabled(), is_enabled);
            let (_ours, theirs) = pipes().unwrap();
            let started = OnLeash::always().start(program, Channels::Three(theirs)).await;
            assert!(started.is_err(), "{started:?}");
            let (_ours, theirs) = pipes().unwrap();
            let held = OnLeash::or_family().start(program, Channels::Three(theirs)).await.unwrap();
            assert_eq!(held.ended().await.unwrap().code(), Some(7));
        }
    }
}
