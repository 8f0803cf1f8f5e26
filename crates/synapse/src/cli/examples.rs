//! What is shown below the help of each command: how it is used, in one to three lines that work as they stand.
//!
//! A test parses every line that begins with `synapse`, and finds commands that have none.

pub(super) const FIRST_STEPS: &str = "\
First steps:
  synapse claude                                    start Claude Code as an agent
  synapse run -d --name shout --exec 'tr a-z A-Z'   make any command an agent
  synapse send shout 'hello' --response             send it a message and print the reply
  synapse list                                      list the agents

Name agents by name or type (`claude`), with a folder (`claude@p2`), handle, id, remote or URL.
Exit codes: 0 ok, 1 error, 2 usage, 3 the task failed, 4 timed out, 5 refused or ambiguous.";

pub(super) const HELP: &str = "\
Examples:
  synapse help send
  synapse help --all                                    all commands, also rare ones";

pub(super) const ATTACH: &str = "\
Examples:
  synapse attach claude                                 its terminal, here; Ctrl-\\ d detaches
  synapse attach claude --read-only
  synapse config set terminal.prefix C-b                another prefix key than Ctrl-\\

Keys: the prefix key (setting terminal.prefix, by default Ctrl-\\), and then
  d                detach; the agent keeps running
  t                take the keyboard from another viewer
  m                deliver mail that waits because you are typing
  the prefix key   send the prefix key itself to the program";

pub(super) const START: &str = "\
Examples:
  synapse start claude                                  in the background, as it was; `synapse list --all` has the names
  synapse start review --attach                         and show its terminal here

The CLI begins a new conversation unless the flags it had say otherwise; `synapse claude --continue` goes on with the \
last one, as the same agent.";

pub(super) const SCREEN: &str = "\
Examples:
  synapse screen claude
  synapse screen claude --format svg > claude.svg";

pub(super) const RECORD: &str = "\
Examples:
  synapse record -o session.cast -- codex               until it ends; session.json has the states
  synapse record review --no-input                      what runs already, without what is typed; Ctrl-C ends it
  synapse profile test codex --recording session.cast";

pub(super) const PROFILE: &str = "\
Examples:
  synapse profile list
  synapse profile show codex
  synapse profile test codex --recording session.cast";

pub(super) const MCP: &str = "\
Examples:
  synapse mcp serve                                     what a program starts that speaks MCP
  synapse init --mcp claude,codex                       tells Claude Code and Codex to start it";

pub(super) const MCP_SERVE: &str = "\
Examples:
  synapse mcp serve
  claude mcp add synapse -- synapse mcp serve           by hand, without `synapse init --mcp`";

pub(super) const A2A_DOCTOR: &str = "\
Examples:
  synapse a2a doctor https://agent.example              nothing that makes the agent work
  synapse a2a doctor https://agent.example --send       also sends messages, and follows what becomes of them
  synapse a2a doctor http://localhost:9999/card.json --wire --token-env AGENT_TOKEN

Exit codes: 0 nothing is wrong, 1 something is, 4 there was not enough time.";

pub(super) const CERTS: &str = "\
Examples:
  synapse certs make --name build.example --client ci   an authority, a certificate for this machine, one for ci
  synapse certs show ~/.synapse/certs/server.pem";

pub(super) const HISTORY: &str = "\
Examples:
  synapse history --since 2h                            what was said lately, to whom
  synapse history search 'parser error'                 in all messages and answers, in any language
  synapse history show 1a2b3c4d --mermaid               a conversation, as a diagram";

pub(super) const BROADCAST: &str = "\
Examples:
  synapse broadcast 'the build is broken, please wait'
  synapse broadcast 'who can look at the parser?' --to skill:rust --response --timeout 1m
  synapse broadcast 'welcome back' --all                also those that do not run, at their next start";

pub(super) const INTERRUPT: &str = "\
Examples:
  synapse interrupt review 'stop, main has changed'     stops what it does; the message is next
  synapse interrupt review --only                       only stops it";

pub(super) const APPROVE: &str = "\
Examples:
  synapse inbox --approvals                     what waits for you, with the hash of each prompt
  synapse approve codex                         shows the prompt and asks
  synapse approve codex --prompt 3f9a1c20d4e7b85a6c0d11f2   presses the key only if it is still this prompt";

pub(super) const DENY: &str = "\
Examples:
  synapse deny codex
  synapse deny codex --prompt 3f9a1c20d4e7b85a6c0d11f2";

pub(super) const SEND_KEYS: &str = "\
Examples:
  synapse send-keys codex Down Enter                    as if you sat there; each key is pressed alone
  synapse send-keys codex '/model' Enter --wait         text, then Enter; after a message that is being typed
  synapse send-keys codex -l -- -Enter                  all of it is text

Only you can, from a process that no agent started, and the audit log says that you did. A key may approve what an agent \
asks for: `synapse approve` presses it only while the prompt is the one you mean.";

pub(super) const WAIT: &str = "\
Examples:
  synapse wait review tests --all --until idle
  synapse wait 1a2b3c4d --until done --timeout 10m";

pub(super) const EXPLAIN: &str = "\
Examples:
  synapse explain review                                why it does what it does
  synapse explain 1a2b3c4d                              where a task or a message is, and what to do
  synapse explain --recording session.cast --profile codex --at 12.5";

pub(super) const LOGS: &str = "\
Examples:
  synapse logs review -f
  synapse logs review --task 1a2b3c4d";

pub(super) const SHARE: &str = "\
Examples:
  synapse share 'rewriting the parser, tests are red until noon'
  synapse share --clear";

pub(super) const FOLLOW: &str = "\
Examples:
  synapse follow review                                 its notes come into your inbox
  synapse follow review --tail                          only print what it shares";

pub(super) const UNFOLLOW: &str = "\
Examples:
  synapse unfollow review";

pub(super) const WATCH: &str = "\
Examples:
  synapse watch review --idle 5m --say 'please go on'
  synapse watch review --idle 10m --say 'are you done?' --max 2 -d
  synapse watch --list";

pub(super) const TOKEN: &str = "\
Examples:
  synapse token rotate --overlap 10m                    a new one for you; the old one works for ten minutes
  synapse token show --path";

pub(super) const AUDIT: &str = "\
Examples:
  synapse audit                                         of all agents
  synapse audit reviewer --since 1h --refused           what it said no to
  synapse audit --who reviewer --verb send --json
  synapse audit verify --all                            whether the logs are whole";

pub(super) const CONFIG: &str = "\
Examples:
  synapse config show                          every setting, and where its value comes from
  synapse config set a2a.flow roundtrip        for you, everywhere
  synapse config set a2a.flow oneway --project here only";

pub(super) const TRUST: &str = "\
Examples:
  synapse trust                                what this project's files ask for, and a question
  synapse trust ~/code/app --yes               for scripts, without the question
  synapse trust --list
  synapse trust --revoke ~/code/app

Without trust, files in `.synapse` of a project can only add caution. A file that changes is no longer trusted.";

pub(super) const RUN: &str = "\
Examples:
  synapse run --name shout --exec 'tr a-z A-Z'          until Ctrl-C, showing what happens
  synapse run -d --name review --exec ./review.sh --parallel 2 --time-limit 10m
  synapse run -d --name count --jsonl --exec 'python3 agent.py' --description 'Counts words'
  synapse run -d -- python3 -i                          any program, in a terminal of its own

The command gets the message on standard input, and its standard output is the answer. Its exit code says \
whether the task was completed. It finds SYNAPSE_TASK_ID, SYNAPSE_SENDER and others in its environment.";

pub(super) const JOIN: &str = "\
Examples:
  synapse join --name desk
  synapse join --name desk --role Reviewer --skill rust --window 1

Messages come as lines of JSON, and lines of JSON report on them: {\"type\": \"seen\", \"message_id\": …}, then \
{\"type\": \"completed\", \"message_id\": …, \"text\": …}. When the input ends, the agent stops; mail for it is kept.";

pub(super) const SEND: &str = "\
Examples:
  synapse send shout 'hello' --response                 wait for the answer and print it
  synapse send review --file change.diff --wait-for seen
  synapse send shout 'for 20 as well' --task 1a2b3c4d   go on with a task that asked
  synapse send https://agent.example 'hello' --response  any agent that speaks A2A

`synapse list` shows whom you can send to. An agent that does not run gets the message at its next start.";

pub(super) const A2A: &str = "\
Examples:
  synapse a2a serve --exec ./agent.py --jsonl           a script as an A2A agent, in one line
  synapse a2a doctor https://agent.example              what is not as the protocol has it, and what to change";

pub(super) const A2A_SERVE: &str = "\
Examples:
  synapse a2a serve --exec ./agent.py --jsonl           a script that streams, as an A2A agent
  synapse a2a serve --exec 'tr a-z A-Z' --name shout    any command will do
  synapse a2a serve --exec ./agent.py --auth none       for tries on this machine: no token is asked for

It serves JSON-RPC, HTTP+JSON and gRPC on one port, in 1.0 and 0.3, with its card at /.well-known/agent-card.json.";

pub(super) const REMOTE: &str = "\
Examples:
  synapse remote add weather https://weather.example --token-file ~/.weather-token
  synapse send weather 'Oslo, tomorrow?' --response     it is called like one of yours
  synapse remote refresh weather                        fetch its card again
  synapse cancel weather/3f2a1b                         stop a task that it has

Whatever a remote answers is data of a stranger. Its token is read from the file when it is needed, and is shown to its \
host alone.";

pub(super) const REPLY: &str = "\
Examples:
  synapse reply 'done, see src/lib.rs'                  to the task that this process works on
  synapse reply --task 1a2b3c4d --fail 'the tests do not build'";

pub(super) const INBOX: &str = "\
Examples:
  synapse inbox                                         yours, or that of the agent you run under
  synapse inbox shout --peek -n 5";

pub(super) const LIST: &str = "\
Examples:
  synapse list
  synapse list --all                                    also those that do not run
  synapse list --json";

pub(super) const STATUS: &str = "\
Examples:
  synapse status shout
  synapse status tr-8100 --json";

pub(super) const CANCEL: &str = "\
Examples:
  synapse cancel 1a2b3c4d
  synapse cancel 1a2b3c4d --why 'the plan has changed'

`synapse status <AGENT>` shows what an agent works on.";

pub(super) const KILL: &str = "\
Examples:
  synapse kill shout
  synapse kill --all";

pub(super) const INIT: &str = "\
Examples:
  synapse init --dry-run                                show what would be written
  synapse init --cli claude,codex --yes                 in CLAUDE.md and AGENTS.md of this folder
  synapse init --mcp                                    register the MCP tools with every CLI that is installed
  synapse init --mcp=claude,gemini                      only with these
  synapse init --user --remove                          take all of it out of your own files

Without --cli: the files of the CLIs that are installed (CLAUDE.md, GEMINI.md, QWEN.md, AGENTS.md) and those of them \
that are there; if there are none, a new AGENTS.md. The lesson is put between two markers; the rest of the file stays \
as it is, byte for byte.";

pub(super) const DOCTOR: &str = "\
Examples:
  synapse doctor
  synapse doctor --fix                                  close and clear up what is safe to
  synapse doctor --json

Exit code 1 if something is bad; a warning is none.";

pub(super) const CLEAN: &str = "\
Examples:
  synapse clean --dry-run                               show what would be removed
  synapse clean --older-than 30
  synapse clean --forget shout";

pub(super) const UPGRADE_AGENTS: &str = "\
Examples:
  synapse upgrade-agents --all --dry-run                which are not of this version
  synapse upgrade-agents --all
  synapse upgrade-agents shout

The agent, its port, its mail and the commands it runs stay. Its holder stays of the old version as well, until \
the agent is stopped and started again.";

pub(super) const UNINSTALL: &str = "\
Examples:
  synapse uninstall
  synapse uninstall --keep-mail --yes

Stops what runs, then removes ~/.synapse (or SYNAPSE_HOME) and our entries in the registry. What is not ours, the \
program itself, and what `synapse init` wrote into files of yours are named and left.";

pub(super) const COMPLETIONS: &str = "\
Examples:
  synapse completions bash > ~/.local/share/bash-completion/completions/synapse
  synapse completions zsh > ~/.zfunc/_synapse           with ~/.zfunc in fpath
  synapse completions fish > ~/.config/fish/completions/synapse.fish";

pub(super) const MAN: &str = "\
Examples:
  synapse man --dir ~/.local/share/man/man1             then: man synapse-send
  synapse man > synapse.1";

pub(super) const DEMO: &str = "\
Examples:
  synapse demo
  synapse demo --keep

Nothing of yours is touched: it has a home of its own, which is removed at the end.";

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::{CommandFactory as _, Parser as _};

    /// Words as a shell would split them, as far as examples need it; what comes after two spaces is a remark.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        let line = line.split("  ").next().unwrap_or_default();
        let line = line.split(" > ").next().unwrap_or_default();
        for c in line.chars() {
            match c {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                c => words.last_mut().unwrap().push(c),
            }
        }
        words
    }

    /// CLI-9: each command shows how it is used, and what it shows is understood.
    #[test]
    fn every_command_has_examples_that_parse() {
        let mut without = Vec::new();
        for command in Cli::command().get_subcommands() {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> =
                text.lines().map(str::trim_start).filter(|line| line.starts_with("synapse ")).collect();
            if !text.starts_with("Examples:\n") || examples.is_empty() {
                without.push(command.get_name().to_owned());
            }
            for example in examples {
                let parsed = Cli::try_parse_from(words(example));
                assert!(parsed.is_ok(), "{example}: {}", parsed.err().unwrap());
            }
        }
        assert!(without.is_empty(), "commands without examples: {without:?}");
    }
}
