//! Tools that run as tasks, whose results the client fetches later.

use std::time::Duration;

use gladhand::hub::{Answer, Kit};
use gladhand::operations::{Failure, FailureKind, Question, TaskSupport, Tool, ToolResult};
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

use crate::asking::{ask_name, field, form};

pub(crate) fn kit() -> Kit {
    let greet = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let compute = json!({
        "type": "object",
        "properties": {"seconds": {"type": "number", "minimum": 0}, "label": {"type": "string"}},
    });
    let delete = json!({"type": "object", "properties": {"filename": {"type": "string"}}});
    let optional = |name: &str, description: &str| Tool::plain(name, description).as_task(TaskSupport::Optional);
    let required = |name: &str, description: &str| Tool::plain(name, description).as_task(TaskSupport::Required);
    let kit = Kit::new().tool(Tool::plain("greet", "Greets somebody.").taking(&greet), |call, _| {
        let Greet { name } = call.read()?;
        Ok(ToolResult::text(&format!("Hello, {name}!")))
    });
    let kit = kit.slow_tool(optional("slow_compute", "Takes its time.").taking(&compute), |call, _| async move {
        let Compute { seconds } = call.read()?;
        let pause = Duration::try_from_secs_f64(seconds);
        sleep(pause.map_err(|problem| Failure::invalid_argument("seconds", problem))?).await;
        Ok(ToolResult::text(&format!("Computed for {seconds} seconds.")))
    });
    let kit = kit.slow_tool(required("failing_job", "Reports a failure after a while."), |_, _| async {
        sleep(Duration::from_secs(1)).await;
        Ok(ToolResult::failure("The job failed, as it always does."))
    });
    let kit = kit.slow_tool(optional("protocol_error_job", "Breaks down."), |_, _| async {
        Err::<ToolResult, _>(Failure::new(FailureKind::Internal, "the job broke down, as it always does"))
    });
    let kit = kit.slow_tool(optional("confirm_delete", "Asks before it does nothing.").taking(&delete), {
        |call, reporter| async move {
            let Delete { filename } = call.read()?;
            let schema = form(&[("confirm", json!({"type": "boolean"}))]);
            let answer = reporter.ask(Question::form(&format!("Delete {filename}?"), &schema).named("confirm")).await?;
            Ok(ToolResult::text(&format!("The answer was {}", answer.get())))
        }
    });
    let kit = kit.slow_tool(optional("multi_input", "Asks two things at once."), |_, reporter| async move {
        let questions = vec![ask_name("Your name?").named("first"), ask_name("Your other name?").named("second")];
        let answers: Vec<_> = reporter.ask_all(questions).await.into_iter().collect::<Result<_, _>>()?;
        Ok(ToolResult::text(&format!("{} answers came.", answers.len())))
    });
    kit.tool(required("test_tool_with_task", "Asks for a name first, and goes on as a task."), |_, context| {
        let reporter = context.reporter();
        Ok(Answer::task_later(async move {
            let answer = reporter.ask(ask_name("What is your name?").named("user_name")).await?;
            reporter.go_on_as_task();
            sleep(Duration::from_millis(100)).await;
            Ok(ToolResult::text(&format!("Done for {}.", field(&answer, "name")?)))
        }))
    })
}

#[derive(Deserialize)]
struct Greet {
    name: String,
}

#[derive(Deserialize)]
struct Compute {
    #[serde(default)]
    seconds: f64,
}

#[derive(Deserialize)]
struct Delete {
    #[serde(default)]
    filename: String,
}
