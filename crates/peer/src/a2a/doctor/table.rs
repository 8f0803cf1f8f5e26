//! All that is looked at: one row for each check, with what is expected and what to change. Pure.
// tidy: table

use super::finding::{Check, Level};

const fn must(
    name: &'static str,
    section: &'static str,
    expected: &'static str,
    help: &'static str,
) -> Check {
    Check { name, section, else_level: Level::Wrong, expected, help }
}

const fn should(
    name: &'static str,
    section: &'static str,
    expected: &'static str,
    help: &'static str,
) -> Check {
    Check { name, section, else_level: Level::Warning, expected, help }
}

// The card.
pub const CARD_FOUND: Check = must(
    "card_found",
    "8.2",
    "a card at /.well-known/agent-card.json, for anybody, with status 200",
    "serve the card there, without credentials and without a redirect",
);
pub const CARD_OLD_PLACE: Check = should(
    "card_old_place",
    "",
    "clients of 0.2 look at /.well-known/agent.json; nobody else needs it",
    "nothing has to change",
);
pub const CARD_JSON: Check =
    must("card_json", "14.3", "one JSON object", "serve the AgentCard as JSON, and nothing around it");
pub const CARD_CONTENT_TYPE: Check = should(
    "card_content_type",
    "14.3",
    "Content-Type application/json",
    "set the Content-Type of the card to application/json",
);
pub const CARD_FIELDS: Check = must(
    "card_fields",
    "4.4.1",
    "name, description, supportedInterfaces, version, capabilities, defaultInputModes, defaultOutputModes and \
     skills, and no list of them empty",
    "add the fields that are named",
);
pub const CARD_SKILLS: Check = must(
    "card_skills",
    "4.4.5",
    "each skill has id, name, description and at least one tag",
    "add the fields that are named",
);
pub const CARD_INTERFACES: Check = must(
    "card_interfaces",
    "4.4.6",
    "each interface has url, protocolBinding (JSONRPC, GRPC, HTTP+JSON or a URI) and protocolVersion (as 1.0)",
    "put right the interfaces that are named",
);
pub const CARD_PROVIDER: Check = must(
    "card_provider",
    "4.4.2",
    "a provider, if there is one, has url and organization",
    "add what is missing, or leave the provider out",
);
pub const CARD_SECURITY: Check = must(
    "card_security",
    "4.5",
    "each security requirement names a scheme of securitySchemes, and each scheme is of one kind",
    "declare the schemes that are required, in the form of the version that the card is of",
);
pub const CARD_SECRETS: Check = should(
    "card_secrets",
    "13.3",
    "nothing in the card looks like a secret",
    "take it out of the card and replace it: whoever has seen the card has it",
);
pub const CARD_ENCRYPTED: Check = should(
    "card_encrypted",
    "7.1",
    "https, except on the machine itself",
    "serve the card and the interfaces over https",
);
pub const CARD_CACHE: Check = should(
    "card_cache",
    "8.6.1",
    "Cache-Control with max-age, and an ETag",
    "send both with the card; clients then ask less often, and for changes only",
);
pub const CARD_UNCHANGED: Check = should(
    "card_unchanged",
    "8.6.1",
    "status 304 for a card that has not changed since",
    "answer If-None-Match with 304 if it has the ETag of the card, and keep the ETag until the card changes",
);
pub const CARD_CORS: Check = should(
    "card_cors",
    "",
    "no page on the web is let in with the credentials of whoever looks at it",
    "do not send Access-Control-Allow-Credentials with an origin that merely asked",
);
pub const CARD_SIGNATURE: Check = must(
    "card_signature",
    "8.4.3",
    "if there are signatures, one that is right by a key of the card's own host",
    "sign the card as it is served (JWS over its canonical JSON), and keep the key at its jku",
);
pub const CARD_HOSTS: Check = should(
    "card_hosts",
    "8.3.1",
    "interfaces are where the card is from; callers have no reason to believe it about others",
    "use URLs of the card's own host; --allow-host HOST looks at those of another",
);

// Each interface.
pub const REACHED: Check = must(
    "reached",
    "8.3.1",
    "who is called at the URL of the interface answers in its binding",
    "put the URL and the binding of the interface right in the card, or serve it there",
);
pub const LET_IN: Check = must(
    "let_in",
    "7.4",
    "callers with the right credentials are let in",
    "check that the token is good, and that the card names the scheme that the server asks for",
);
pub const STRANGERS: Check = must(
    "strangers",
    "7.4",
    "without the credentials that the card requires, an error",
    "ask for credentials on every operation, or take the requirement out of the card",
);
pub const CHALLENGE: Check = should(
    "challenge",
    "7.4",
    "status 401 comes with WWW-Authenticate",
    "say in WWW-Authenticate how callers prove who they are",
);
pub const AUTH_DECLARED: Check = must(
    "auth_declared",
    "4.5",
    "credentials that the server asks for are in the card, as securitySchemes and securityRequirements",
    "declare the scheme in the card, and require it",
);
pub const GET_UNKNOWN: Check = must(
    "get_unknown",
    "3.1.3",
    "TaskNotFoundError for a task that never was",
    "answer GetTask for an unknown id with TaskNotFoundError",
);
pub const NO_VERSION: Check = must(
    "no_version",
    "3.6.2",
    "a request without A2A-Version is one of 0.3: VersionNotSupportedError, or the answer of 0.3",
    "read the header A2A-Version; without it, take the request for 0.3, and refuse it if 0.3 is not served",
);
pub const OTHER_VERSION: Check = must(
    "other_version",
    "3.6.2",
    "VersionNotSupportedError for version 9.9",
    "check the header A2A-Version before anything else, in every binding",
);
pub const UNKNOWN_METHOD: Check = must(
    "unknown_method",
    "9.5",
    "MethodNotFoundError, or status 404 over HTTP+JSON",
    "answer what is not known with this error",
);
pub const BROKEN_JSON: Check = must(
    "broken_json",
    "9.5",
    "JSONParseError, or status 400 over HTTP+JSON",
    "answer what is no JSON with an error of the protocol, not with one of the framework",
);
pub const NO_MESSAGE: Check = must(
    "no_message",
    "3.3.2",
    "InvalidParamsError for SendMessage without a message",
    "check required fields before anything is done",
);
pub const EMPTY_PARTS: Check = must(
    "empty_parts",
    "3.3.2",
    "InvalidParamsError for a message without parts",
    "check that lists which are required are not empty",
);
pub const CANCEL_UNKNOWN: Check = must(
    "cancel_unknown",
    "3.1.5",
    "TaskNotFoundError for a task that never was",
    "answer CancelTask for an unknown id with TaskNotFoundError",
);
pub const SUBSCRIBE_UNKNOWN: Check = must(
    "subscribe_unknown",
    "3.1.6",
    "TaskNotFoundError for a task that never was; UnsupportedOperationError if streaming is not declared",
    "look for the task before a stream is opened, and answer with the error itself",
);
pub const PUSH: Check = must(
    "push",
    "3.3.4",
    "PushNotificationNotSupportedError if push notifications are not declared; else TaskNotFoundError for a task \
     that never was",
    "declare capabilities.pushNotifications, or refuse the operations of it",
);
pub const EXTENDED_CARD: Check = must(
    "extended_card",
    "3.1.11",
    "UnsupportedOperationError if it is not declared; else a card, or ExtendedAgentCardNotConfiguredError",
    "declare capabilities.extendedAgentCard, or refuse GetExtendedAgentCard",
);
pub const EXTENDED_CARD_OPEN: Check = must(
    "extended_card_open",
    "13.3",
    "the extended card is not for callers without credentials",
    "ask for credentials before the extended card is given out",
);
pub const PAGE_SIZE: Check = should(
    "page_size",
    "3.1.4",
    "InvalidParamsError for a page of 101 tasks; 1 to 100 are allowed",
    "refuse a pageSize that is out of bounds instead of answering something else",
);
pub const ERROR_SHAPE: Check = must(
    "error_shape",
    "3.3.2",
    "errors have a code and a message, and details are a list of objects with @type",
    "JSON-RPC: {code, message, data: [{\"@type\": …}]}; HTTP+JSON: {\"error\": {code, status, message, details: [{\"@type\": …}]}}",
);
pub const ERROR_INFO: Check = should(
    "error_info",
    "9.5",
    "errors of A2A carry a google.rpc.ErrorInfo with their reason and the domain a2a-protocol.org",
    "add {\"@type\": \"type.googleapis.com/google.rpc.ErrorInfo\", \"reason\": …, \"domain\": \"a2a-protocol.org\"}",
);
pub const MEDIA: Check = must(
    "content_type",
    "9.1",
    "answers of JSON-RPC are application/json; those of HTTP+JSON should be application/a2a+json",
    "set the Content-Type of answers",
);
pub const GRPC: Check = must(
    "grpc_reached",
    "10.1",
    "who is called at the URL speaks HTTP/2",
    "put the URL right in the card, or serve gRPC there",
);
pub const GRPC_GET: Check = must(
    "grpc_get_unknown",
    "10.6",
    "the status NOT_FOUND (5) for a task that never was",
    "serve lf.a2a.v1.A2AService there, or a2a.v1.A2AService for 0.3, and end such a call with this status",
);
pub const GRPC_INFO: Check = must(
    "grpc_error_info",
    "10.6",
    "errors of A2A have a google.rpc.ErrorInfo among the details of their status, with the reason and the domain a2a-protocol.org",
    "add it to grpc-status-details-bin",
);
pub const GRPC_METHOD: Check = must(
    "grpc_unknown_method",
    "10.6",
    "the status UNIMPLEMENTED (12) for an operation that is none",
    "end calls of what is not known with this status",
);
pub const GRPC_SEND: Check = must(
    "grpc_send",
    "10.4",
    "SendMessage answers with a task or a message",
    "answer with one message, a SendMessageResponse that holds one of them",
);
pub const OTHER_BINDING: Check = must(
    "other_binding",
    "5.8",
    "a binding and a version that can be looked at: JSONRPC, HTTP+JSON or GRPC, 1.0 or 0.3",
    "nothing has to change",
);

// Version 0.3, whose sections have other numbers.
pub const OLD_GET: Check = must(
    "old_get_unknown",
    "",
    "the error of 0.3 for a task that never was: -32001, or status 404",
    "serve 0.3 where the card says so, or take it out of the card",
);
pub const OLD_METHOD: Check = must(
    "old_unknown_method",
    "",
    "the error -32601 for a method that 0.3 does not have",
    "answer what is not known with this error",
);
pub const OLD_SEND: Check = must(
    "old_send",
    "",
    "message/send of 0.3 answers with a task or a message of 0.3",
    "answer clients of 0.3 in the words of 0.3",
);

// With a message.
pub const MESSAGE: Check = must(
    "message",
    "3.1.1",
    "what becomes of a message is looked at only with --send, since the agent works on it",
    "nothing has to change",
);
pub const SEND: Check = must(
    "send",
    "3.2.2",
    "SendMessage answers with a task that has ended or asks for something, or with a message",
    "wait for the end of the task unless returnImmediately is true",
);
pub const TASK_FIELDS: Check = must(
    "task_fields",
    "4.1.1",
    "a task has id, status.state, artifacts with artifactId and parts; messages have messageId, role and parts; a \
     part has one of text, raw, url, data",
    "put right the fields that are named",
);
pub const CONTEXT: Check = must(
    "context",
    "3.4.1",
    "the answer has a contextId",
    "make a contextId where the caller brought none, and tell it",
);
pub const TIMESTAMPS: Check = must(
    "timestamps",
    "5.6.1",
    "times are ISO 8601 in UTC and end with Z",
    "write times as 2026-01-31T12:00:00.000Z",
);
pub const RESULTS: Check = should(
    "results",
    "3.7",
    "what a task has made is in its artifacts",
    "put results into artifacts; messages are for talking",
);
pub const GET_TASK: Check = must(
    "get_task",
    "3.1.3",
    "GetTask gives the task that was made, in the state that was told",
    "keep tasks, and give them to whoever made them",
);
pub const NO_HISTORY: Check = must(
    "no_history",
    "3.2.4",
    "no history with historyLength 0",
    "leave history out if historyLength is 0; unset is another thing",
);
pub const LIST_FIELDS: Check = must(
    "list_fields",
    "3.1.4",
    "ListTasks has tasks, nextPageToken (\"\" at the end), pageSize and totalSize, always",
    "write these fields also when they are empty or 0",
);
pub const LIST_CONTAINS: Check = must(
    "list_contains",
    "3.1.4",
    "the task that was just made is in the list",
    "list the tasks of the caller, newest first",
);
pub const LIST_SORTED: Check = must(
    "list_sorted",
    "3.1.4",
    "newest first, by the time of the status",
    "sort by status.timestamp, the latest first",
);
pub const LIST_ARTIFACTS: Check = must(
    "list_artifacts",
    "3.1.4",
    "no artifacts in the list unless includeArtifacts is true",
    "leave the field artifacts out, also as an empty list",
);
pub const LIST_PAGES: Check = must(
    "list_pages",
    "3.1.4",
    "a page has no more than pageSize tasks, and the next one begins where it ended",
    "heed pageSize and pageToken",
);
pub const CANCEL_ENDED: Check = must(
    "cancel_ended",
    "3.1.5",
    "TaskNotCancelableError for a task that has ended",
    "refuse to cancel what has ended",
);
pub const SUBSCRIBE_ENDED: Check = must(
    "subscribe_ended",
    "3.1.6",
    "UnsupportedOperationError for a task that has ended",
    "refuse to follow what has ended, with an error and not with a stream",
);
pub const SEND_TO_ENDED: Check = must(
    "send_to_ended",
    "3.1.1",
    "UnsupportedOperationError for a message to a task that has ended",
    "refuse messages to tasks that have ended",
);
pub const AT_ONCE: Check = must(
    "return_immediately",
    "3.2.2",
    "with returnImmediately, the task comes as soon as it is made",
    "answer as soon as the task is made, and go on with it",
);
pub const NO_STREAMING: Check = must(
    "no_streaming",
    "3.3.4",
    "UnsupportedOperationError for SendStreamingMessage if streaming is not declared",
    "declare capabilities.streaming, or refuse streams",
);
pub const STREAM_TYPE: Check = must(
    "stream_type",
    "9.4.2",
    "status 200 and Content-Type text/event-stream",
    "send streams as server-sent events",
);
pub const STREAM_EVENTS: Check = must(
    "stream_events",
    "3.2.3",
    "each event is one of task, message, statusUpdate and artifactUpdate, with the fields of it; over JSON-RPC as \
     the result of an answer with the id of the request",
    "put right the events that are named",
);
pub const STREAM_FIRST: Check = must(
    "stream_first",
    "3.1.2",
    "the first event is the task; or the only one is a message",
    "send the task as soon as it is made, before anything that happens to it",
);
pub const STREAM_END: Check = must(
    "stream_end",
    "3.1.2",
    "the stream ends once the task has ended or asks for something",
    "close the stream after the last status",
);
pub const STREAM_RESUME: Check = should(
    "stream_resume",
    "",
    "events have ids, and Last-Event-ID tells what came after one, once; a help that the protocol leaves open",
    "tell each event after the one that is named, in order, and none twice",
);

/// The same check where the binding is HTTP+JSON, of which the protocol says something else.
pub(super) fn over_http(check: &Check) -> Check {
    let (section, else_level) = match check.name {
        "unknown_method" | "broken_json" => ("", Level::Warning),
        "error_info" => ("11.6", Level::Wrong),
        "content_type" => ("11.1", Level::Warning),
        "stream_type" => ("11.7", check.else_level),
        _ => (check.section, check.else_level),
    };
    Check { section, else_level, ..*check }
}

#[cfg(test)]
pub(super) const ALL: &[Check] = &[
    CARD_FOUND,
    CARD_OLD_PLACE,
    CARD_JSON,
    CARD_CONTENT_TYPE,
    CARD_FIELDS,
    CARD_SKILLS,
    CARD_INTERFACES,
    CARD_PROVIDER,
    CARD_SECURITY,
    CARD_SECRETS,
    CARD_ENCRYPTED,
    CARD_CACHE,
    CARD_UNCHANGED,
    CARD_CORS,
    CARD_SIGNATURE,
    CARD_HOSTS,
    REACHED,
    LET_IN,
    STRANGERS,
    CHALLENGE,
    AUTH_DECLARED,
    OLD_GET,
    OLD_METHOD,
    OLD_SEND,
    GET_UNKNOWN,
    NO_VERSION,
    OTHER_VERSION,
    UNKNOWN_METHOD,
    BROKEN_JSON,
    NO_MESSAGE,
    EMPTY_PARTS,
    CANCEL_UNKNOWN,
    SUBSCRIBE_UNKNOWN,
    PUSH,
    EXTENDED_CARD,
    EXTENDED_CARD_OPEN,
    PAGE_SIZE,
    ERROR_SHAPE,
    ERROR_INFO,
    MEDIA,
    GRPC,
    GRPC_GET,
    GRPC_INFO,
    GRPC_METHOD,
    GRPC_SEND,
    OTHER_BINDING,
    MESSAGE,
    SEND,
    TASK_FIELDS,
    CONTEXT,
    TIMESTAMPS,
    RESULTS,
    GET_TASK,
    NO_HISTORY,
    LIST_FIELDS,
    LIST_CONTAINS,
    LIST_SORTED,
    LIST_ARTIFACTS,
    LIST_PAGES,
    CANCEL_ENDED,
    SUBSCRIBE_ENDED,
    SEND_TO_ENDED,
    AT_ONCE,
    NO_STREAMING,
    STREAM_TYPE,
    STREAM_EVENTS,
    STREAM_FIRST,
    STREAM_END,
    STREAM_RESUME,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stable_and_each_its_own() {
        let mut names: Vec<&str> = ALL.iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for check in ALL {
            assert!(!check.expected.is_empty() && !check.help.is_empty(), "{}", check.name);
            assert!(check.section.chars().all(|c| c.is_ascii_digit() || c == '.'), "{}", check.name);
        }
    }
}
