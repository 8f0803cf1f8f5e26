//! The operations on push notification configs, and the config inside a message (P1–P7, P14, P20,
//! S8).
//!
//! A config belongs to a task and is visible to whoever may see the task. It is checked before
//! anything is stored or sent, and errors name the field at fault. Not here: calling the webhook
//! (`crate::push`).

use super::{Engine, Mark};
use crate::push::{NotKept, Push};
use sha2::{Digest as _, Sha256};
use synapse_a2a::check::{self, Version};
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::pb;
use synapse_core::ids::{Seq, TaskId};
use synapse_peer::web::TargetFault;
use synapse_store::webhooks::{Login, Webhook};

const ID_BYTES_MAX: usize = 128;
const TOKEN_BYTES_MAX: usize = 4 << 10;
const CREDENTIALS_BYTES_MAX: usize = 8 << 10;
const SCHEME_BYTES_MAX: usize = 64;

/// The path of the config in a message.
const IN_MESSAGE: &str = "configuration.taskPushNotificationConfig.";

impl Engine {
    /// CreateTaskPushNotificationConfig (P2, P4). Replaces a config with the same id.
    pub(super) async fn create_push(
        &self,
        mut config: pb::TaskPushNotificationConfig,
    ) -> Result<pb::TaskPushNotificationConfig, Fault> {
        let known = self.known_by_name(check::id("taskId", &config.task_id)?).await?;
        self.check_push(&config, "").await?;
        if config.id.is_empty() {
            config.id = random_id()?;
        }
        let hook = webhook(config, known.task().id, known.mark(), self.speaks);
        let told = told(&hook);
        Push::put(&self.app, hook, known.mark()).await.map_err(not_kept)?;
        Ok(told)
    }

    /// GetTaskPushNotificationConfig (P5).
    pub(super) async fn get_push(
        &self,
        request: pb::GetTaskPushNotificationConfigRequest,
    ) -> Result<pb::TaskPushNotificationConfig, Fault> {
        let task = self.known_by_name(check::id("taskId", &request.task_id)?).await?.task().id;
        let found = self.app.push.get(task, check::id("id", &request.id)?);
        found.map(|hook| told(&hook)).ok_or_else(|| {
            let message =
                format!("task {task} has no push notification config {:?}; it may be over", request.id);
            Fault::new(Kind::TaskNotFound, message)
        })
    }

    /// ListTaskPushNotificationConfigs (P6).
    pub(super) async fn list_push(
        &self,
        request: pb::ListTaskPushNotificationConfigsRequest,
    ) -> Result<pb::ListTaskPushNotificationConfigsResponse, Fault> {
        let task = self.known_by_name(check::id("taskId", &request.task_id)?).await?.task().id;
        let most = match request.page_size {
            0 => usize::MAX,
            size => {
                usize::try_from(size).map_err(|_| Fault::params("pageSize", "it must not be negative"))?
            }
        };
        // The page token is the last id of the previous page.
        let all = self.app.push.of_task(task).into_iter().filter(|hook| hook.id > request.page_token);
        let mut configs: Vec<_> = all.take(most.saturating_add(1)).map(|hook| told(&hook)).collect();
        let is_more = configs.len() > most;
        configs.truncate(most);
        let last = configs.last().filter(|_| is_more).map(|config| config.id.clone());
        Ok(pb::ListTaskPushNotificationConfigsResponse { configs, next_page_token: last.unwrap_or_default() })
    }

    /// DeleteTaskPushNotificationConfig (P7).
    pub(super) async fn delete_push(
        &self,
        request: pb::DeleteTaskPushNotificationConfigRequest,
    ) -> Result<(), Fault> {
        let task = self.known_by_name(check::id("taskId", &request.task_id)?).await?.task().id;
        Push::remove(&self.app, task, check::id("id", &request.id)?).await.map_err(not_kept)
    }

    /// Returns the config inside a message, checked before the message is accepted (S8).
    pub(super) async fn push_of(
        &self,
        request: &pb::SendMessageRequest,
    ) -> Result<Option<pb::TaskPushNotificationConfig>, Fault> {
        let configuration = request.configuration.as_ref();
        let Some(mut config) = configuration.and_then(|c| c.task_push_notification_config.clone()) else {
            return Ok(None);
        };
        self.check_push(&config, IN_MESSAGE).await?;
        if config.id.is_empty() && self.speaks == Version::V10 {
            // A repeated message gets the same config id.
            let message = request.message.as_ref().map(|message| message.message_id.as_str());
            config.id = hex(&Sha256::digest(message.unwrap_or_default())[..16]);
        }
        Ok(Some(config))
    }

    /// Stores a message's config for its task. The webhook gets all events after `from`.
    pub(super) async fn keep_push(
        &self,
        config: pb::TaskPushNotificationConfig,
        task: TaskId,
        from: Mark,
    ) -> Result<(), Fault> {
        Push::put(&self.app, self.brought(config, task, from), from).await.map_err(not_kept)
    }

    /// Whether the task already has exactly this webhook: clients of 0.3 send theirs with every
    /// message.
    pub(super) fn has_push(&self, config: &pb::TaskPushNotificationConfig, task: TaskId) -> bool {
        let brought = self.brought(config.clone(), task, Mark::after(Seq(0)));
        let own = self.app.push.get(task, &brought.id);
        own.is_some_and(|own| Webhook { from: own.from.clone(), ..brought } == *own)
    }

    fn brought(&self, mut config: pb::TaskPushNotificationConfig, task: TaskId, from: Mark) -> Webhook {
        // As 0.3 requires, the config of the task's next message replaces this one.
        if config.id.is_empty() {
            config.id = task.to_string();
        }
        webhook(config, task, from, self.speaks)
    }

    async fn check_push(&self, config: &pb::TaskPushNotificationConfig, prefix: &str) -> Result<(), Fault> {
        check_words(config).map_err(|(field, why)| Fault::params(format!("{prefix}{field}"), why))?;
        let judged = self.app.push.check(&self.app, &config.url).await;
        judged.map_err(|fault| {
            let hint = match fault {
                TargetFault::Near { .. } => " (network.push_private in the settings of this machine's user)",
                _ => "",
            };
            Fault::params(format!("{prefix}url"), format!("{fault}{hint}"))
        })
    }
}

/// Checks a config without network access. An error names the field at fault, and why.
fn check_words(config: &pb::TaskPushNotificationConfig) -> Result<(), (&'static str, String)> {
    let fits = |field, text: &str, max: usize| match text {
        text if text.len() > max => Err((field, format!("it is longer than {max} bytes"))),
        // The value goes into a header.
        text if !text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) => {
            Err((field, "it has characters that no header may have".to_owned()))
        }
        _ => Ok(()),
    };
    if config.url.is_empty() {
        return Err(("url", "it is missing".to_owned()));
    }
    if config.id.len() > ID_BYTES_MAX {
        return Err(("id", format!("it is longer than {ID_BYTES_MAX} bytes")));
    }
    fits("token", &config.token, TOKEN_BYTES_MAX)?;
    if let Some(login) = &config.authentication {
        fits("authentication.credentials", &login.credentials, CREDENTIALS_BYTES_MAX)?;
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let scheme = &login.scheme;
        if scheme.is_empty() || scheme.len() > SCHEME_BYTES_MAX || !scheme.bytes().all(is_token) {
            return Err((
                "authentication.scheme",
                "it must be the name of a scheme, such as Bearer".to_owned(),
            ));
        }
    }
    Ok(())
}

fn webhook(config: pb::TaskPushNotificationConfig, task: TaskId, from: Mark, speaks: Version) -> Webhook {
    let login =
        config.authentication.map(|login| Login { scheme: login.scheme, credentials: login.credentials });
    let pb::TaskPushNotificationConfig { id, url, token, .. } = config;
    let is_of_v03 = speaks == Version::V03;
    Webhook { task, id, url, token, login, from: from.to_string(), is_of_v03 }
}

/// Converts a webhook to the config shown to callers that may see its task.
fn told(hook: &Webhook) -> pb::TaskPushNotificationConfig {
    let authentication = hook.login.as_ref().map(|login| pb::AuthenticationInfo {
        scheme: login.scheme.clone(),
        credentials: login.credentials.clone(),
    });
    pb::TaskPushNotificationConfig {
        tenant: String::new(),
        id: hook.id.clone(),
        task_id: hook.task.to_string(),
        url: hook.url.clone(),
        token: hook.token.clone(),
        authentication,
    }
}

fn not_kept(why: NotKept) -> Fault {
    match why {
        NotKept::TooManyOfTask | NotKept::TooMany => Fault::new(Kind::TooMany, why.to_string()),
        NotKept::Disk(_) => Fault::new(Kind::Internal, why.to_string()),
        NotKept::Stopping(refusal) => Fault::of(&refusal),
    }
}

/// Whether a request contains webhook credentials; then the audit log omits its text.
pub(super) fn has_secrets(request: &synapse_a2a::operation::Request) -> bool {
    use synapse_a2a::operation::Request;
    match request {
        Request::CreatePush(_) => true,
        Request::Send(send) | Request::SendStreaming(send) => {
            send.configuration.as_ref().is_some_and(|c| c.task_push_notification_config.is_some())
        }
        _ => false,
    }
}

fn random_id() -> Result<String, Fault> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| Fault::new(Kind::Internal, format!("no randomness: {e}")))?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_at_fault_is_named() {
        let fine = pb::TaskPushNotificationConfig {
            url: "https://hook.example.org".into(),
            token: "a token".into(),
            authentication: Some(pb::AuthenticationInfo {
                scheme: "Bearer".into(),
                credentials: "x y".into(),
            }),
            ..pb::TaskPushNotificationConfig::default()
        };
        assert_eq!(check_words(&fine), Ok(()));
        let login = |scheme: &str, credentials: &str| {
            Some(pb::AuthenticationInfo { scheme: scheme.into(), credentials: credentials.into() })
        };
        let long = |max: usize| "a".repeat(max + 1);
        let table = [
            ("url", pb::TaskPushNotificationConfig { url: String::new(), ..fine.clone() }),
            ("id", pb::TaskPushNotificationConfig { id: long(ID_BYTES_MAX), ..fine.clone() }),
            ("token", pb::TaskPushNotificationConfig { token: long(TOKEN_BYTES_MAX), ..fine.clone() }),
            ("token", pb::TaskPushNotificationConfig { token: "a\r\nx-evil: 1".into(), ..fine.clone() }),
            ("token", pb::TaskPushNotificationConfig { token: "ä".into(), ..fine.clone() }),
            (
                "authentication.scheme",
                pb::TaskPushNotificationConfig { authentication: login("", "x"), ..fine.clone() },
            ),
            (
                "authentication.scheme",
                pb::TaskPushNotificationConfig { authentication: login("A B", "x"), ..fine.clone() },
            ),
            (
                "authentication.credentials",
                pb::TaskPushNotificationConfig { authentication: login("Bearer", "x\n"), ..fine.clone() },
            ),
            (
                "authentication.credentials",
                pb::TaskPushNotificationConfig {
                    authentication: login("Bearer", &long(CREDENTIALS_BYTES_MAX)),
                    ..fine.clone()
                },
            ),
        ];
        for (field, config) in table {
            assert_eq!(check_words(&config).unwrap_err().0, field, "{config:?}");
        }
    }

    #[test]
    fn a_config_comes_back_as_it_was() {
        let task = TaskId::parse("00112233445566778899aabbccddeeff").unwrap();
        let config = pb::TaskPushNotificationConfig {
            id: "c".into(),
            task_id: task.to_string(),
            url: "https://hook.example.org/x".into(),
            token: "t".into(),
            authentication: Some(pb::AuthenticationInfo { scheme: "Bearer".into(), credentials: "x".into() }),
            ..pb::TaskPushNotificationConfig::default()
        };
        let mark = Mark::parse("12-9").unwrap();
        assert_eq!(told(&webhook(config.clone(), task, mark, Version::V10)), config);
    }
}
