//! The examples below the help of each command.
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
  synapse help --all                                    all commands, rare ones too";

pub(super) const ATTACH: &str = "\
Examples:
  synapse attach claude                                 Ctrl-\\ d detaches
  synapse attach claude --read-only
  synapse config set terminal.prefix C-b                another prefix key than Ctrl-\\

Keys: the prefix key (setting terminal.prefix, by default Ctrl-\\), and then
  d                detach; the agent keeps running
  t                take the keyboard from another viewer
  m                deliver mail that waits because you are typing
  the prefix key   send the prefix key itself to the program";

pub(super) const START: &str = "\
Examples:
  synapse start claude                                  as it was; `list --all` shows the names
  synapse start claude --fresh                          with a new conversation
  synapse start review --attach                         and attach to its terminal
  synapse start --all                                   after a reboot: all that were running

A CLI resumes the last conversation of this agent. Its options are kept; a prompt that was given as an argument is not \
submitted again.";

pub(super) const RENAME: &str = "\
Examples:
  synapse rename claude review                          mail, tasks and history stay with it
  synapse rename claude@p2 docs
  synapse rename review --clear                         call it by its type again";

pub(super) const SCREEN: &str = "\
Examples:
  synapse screen claude
  synapse screen claude --format svg > claude.svg";

pub(super) const RECORD: &str = "\
Examples:
  synapse profile record -o session.cast -- codex       the new name of this command";

pub(super) const PROFILE: &str = "\
Examples:
  synapse profile list
  synapse profile show codex
  synapse profile record -o session.cast -- codex       a recording to test a profile with
  synapse profile test codex --recording session.cast";

pub(super) const PROFILE_RECORD: &str = "\
Examples:
  synapse profile record -o session.cast -- codex       until it exits; session.json has the states
  synapse profile record review --no-input              a running agent, without typed keys
  synapse profile test codex --recording session.cast";

pub(super) const MCP: &str = "\
Examples:
  synapse mcp serve                                     the MCP client starts this
  synapse init --mcp claude,codex                       registers it with Claude Code and Codex";

pub(super) const MCP_SERVE: &str = "\
Examples:
  synapse mcp serve
  claude mcp add synapse -- synapse mcp serve           by hand, without `synapse init --mcp`";

pub(super) const A2A_DOCTOR: &str = "\
Examples:
  synapse a2a doctor https://agent.example              only reads; gives the agent no work
  synapse a2a doctor https://agent.example --send       also sends messages and follows their tasks
  synapse a2a doctor http://localhost:9999/card.json --wire --token-env AGENT_TOKEN

Exit codes: 0 no problem, 1 problems found, 4 out of time.";

pub(super) const CERTS: &str = "\
Examples:
  synapse keys certs make --name build.example          the new name of this command";

pub(super) const KEYS: &str = "\
Examples:
  synapse keys token rotate --overlap 10m               for you; the old one works 10 more minutes
  synapse keys token show --path
  synapse keys certs make --name build.example          a CA and certificates for this machine";

pub(super) const KEYS_TOKEN: &str = "\
Examples:
  synapse keys token rotate --overlap 10m               for you; the old one works 10 more minutes
  synapse keys token rotate review                      a new token for an agent
  synapse keys token show --path";

pub(super) const KEYS_CERTS: &str = "\
Examples:
  synapse keys certs make --client ci                   a CA, and certificates for both sides
  synapse keys certs show ~/.synapse/certs/server.pem";

pub(super) const HISTORY: &str = "\
Examples:
  synapse history --since 2h                            the messages of the last two hours
  synapse history search 'parser error'                 in all messages and answers, in any language
  synapse history show 1a2b3c4d --mermaid               a conversation, as a diagram";

pub(super) const BROADCAST: &str = "\
Examples:
  synapse broadcast 'the build is broken, please wait'
  synapse broadcast 'who can look at the parser?' --to skill:rust --response --timeout 1m
  synapse broadcast 'welcome back' --all                also to stopped agents, for their next start";

pub(super) const INTERRUPT: &str = "\
Examples:
  synapse interrupt review 'stop, main has changed'     stops its work; this message comes next
  synapse interrupt review --only                       only stops its work";

pub(super) const APPROVE: &str = "\
Examples:
  synapse inbox --approvals                             all pending prompts, each with its hash
  synapse approve codex                                 shows the prompt and asks you
  synapse approve codex --prompt 3f9a1c20d4e7b85a6c0d11f2  only if it is still this prompt";

pub(super) const DENY: &str = "\
Examples:
  synapse deny codex
  synapse deny codex --prompt 3f9a1c20d4e7b85a6c0d11f2";

pub(super) const SEND_KEYS: &str = "\
Examples:
  synapse send-keys codex Down Enter                    as if you pressed them at its terminal
  synapse send-keys codex '/model' Enter --wait         waits for a message that is being typed
  synapse send-keys codex -l -- -Enter                  all of it is text

Only you can do this, from a process that no agent started, and the audit log records it. A key may approve what an \
agent asks for: `synapse approve` answers only the prompt that you mean.";

pub(super) const WAIT: &str = "\
Examples:
  synapse wait review tests --all --until idle
  synapse wait 1a2b3c4d --until done --timeout 10m";

pub(super) const EXPLAIN: &str = "\
Examples:
  synapse explain review                                its state, its tasks, and what it waits for
  synapse explain 1a2b3c4d                              where a task or a message is, and what to do
  synapse explain weather                               a remote: its card and your tasks
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
  synapse follow review                                 what it shares comes to your inbox
  synapse follow review --tail                          only print what it shares
  synapse follow review --stop";

pub(super) const UNFOLLOW: &str = "\
Examples:
  synapse follow review --stop                          the new name of this command";

pub(super) const WATCH: &str = "\
Examples:
  synapse watch review --idle 5m --say 'please go on'
  synapse watch review --idle 10m --say 'are you done?' --max 2 -d
  synapse watch --list";

pub(super) const TOKEN: &str = "\
Examples:
  synapse keys token rotate --overlap 10m               the new name of this command";

pub(super) const AUDIT: &str = "\
Examples:
  synapse audit                                         all agents
  synapse audit reviewer --since 1h --refused           what it refused
  synapse audit --who reviewer --verb send --json
  synapse audit verify --all                            check that the logs are unchanged";

pub(super) const CONFIG: &str = "\
Examples:
  synapse config show                                   every setting and where its value is from
  synapse config set a2a.flow roundtrip                 for you, in every folder
  synapse config set a2a.flow oneway --project          for this project only";

pub(super) const TRUST: &str = "\
Examples:
  synapse trust                                         show what its files ask for, then ask you
  synapse trust ~/code/app --yes                        for scripts, without a question
  synapse trust --list
  synapse trust --revoke ~/code/app

Without trust, files in `.synapse` of a project can only add caution. A file that changes is no longer trusted.";

pub(super) const RUN: &str = "\
Examples:
  synapse run --name shout --exec 'tr a-z A-Z'          until Ctrl-C; prints its events
  synapse run -d --name review --exec ./review.sh --parallel 2 --time-limit 10m
  synapse run -d --name count --jsonl --exec 'python3 agent.py' --description 'Counts words'
  synapse run -d -- python3 -i                          any program, in its own terminal

The command reads the message from standard input and writes the answer to standard output. Exit code 0 means \
that the task is completed. SYNAPSE_TASK_ID, SYNAPSE_SENDER and others are in its environment.";

pub(super) const JOIN: &str = "\
Examples:
  synapse join --name desk
  synapse join --name desk --role Reviewer --skill rust --window 1

Each message is a line of JSON. Answer with lines such as {\"type\": \"seen\", \"message_id\": …} and \
{\"type\": \"completed\", \"message_id\": …, \"text\": …}. When standard input ends, the agent stops; its mail is kept.";

pub(super) const SEND: &str = "\
Examples:
  synapse send shout 'hello' --response                 wait for the answer and print it
  synapse send review --file change.diff --wait-for seen
  synapse send shout 'for 20 as well' --task 1a2b3c4d   continue a task that asked for input
  synapse send https://agent.example 'hello' --response  any A2A agent

`synapse list` shows the agents. A stopped agent gets the message when it starts.";

pub(super) const A2A: &str = "\
Examples:
  synapse a2a serve --exec ./agent.py --jsonl           a script as an A2A agent
  synapse a2a add weather https://weather.example       a name for a remote agent
  synapse a2a doctor https://agent.example              check a server, and say what to change

A remote agent has a name here and works with `synapse send`, `explain` and `cancel`. Its answers are data from a \
stranger. Its token is read from its file for each call and sent to its host only.";

pub(super) const A2A_SERVE: &str = "\
Examples:
  synapse a2a serve --exec ./agent.py --jsonl           a script that streams its progress
  synapse a2a serve --exec 'tr a-z A-Z' --name shout    any command
  synapse a2a serve --exec ./agent.py --auth none       without a token, to try it out

It serves JSON-RPC, HTTP+JSON and gRPC on one port, in A2A 1.0 and 0.3. Its card is at /.well-known/agent-card.json.";

pub(super) const REMOTE: &str = "\
Examples:
  synapse a2a add weather https://weather.example       the new name of this command";

pub(super) const A2A_ADD: &str = "\
Examples:
  synapse a2a add weather https://weather.example --token-file ~/.weather-token
  synapse send weather 'Oslo, tomorrow?' --response
  synapse cancel weather/3f2a1b                         cancel one of its tasks";

pub(super) const REPLY: &str = "\
Examples:
  synapse reply 'done, see src/lib.rs'                  to the task that this process works on
  synapse reply --task 1a2b3c4d --fail 'the tests do not build'";

pub(super) const INBOX: &str = "\
Examples:
  synapse inbox                                         yours, or those of the agent that runs this
  synapse inbox shout --peek -n 5";

pub(super) const LIST: &str = "\
Examples:
  synapse list
  synapse list --all                                    stopped agents too
  synapse list --json";

pub(super) const STATUS: &str = "\
Examples:
  synapse explain shout                                 shows all of this and more
  synapse status shout --json                           for scripts that read these fields";

pub(super) const CANCEL: &str = "\
Examples:
  synapse cancel 1a2b3c4d
  synapse cancel 1a2b3c4d --why 'the plan has changed'

`synapse explain <AGENT>` shows the tasks of an agent.";

pub(super) const KILL: &str = "\
Examples:
  synapse kill shout
  synapse kill --all";

pub(super) const INIT: &str = "\
Examples:
  synapse init --dry-run                                show what would be written
  synapse init --cli claude,codex --yes                 CLAUDE.md and AGENTS.md of this folder
  synapse init --mcp                                    register the MCP tools with installed CLIs
  synapse init --mcp=claude,gemini                      only with these
  synapse init --user --remove                          remove all of it from your own files

Without --cli: the files of the installed CLIs (CLAUDE.md, GEMINI.md, QWEN.md, AGENTS.md) and those that exist \
already; if there are none, a new AGENTS.md. The instructions go between two markers. The rest of the file does not \
change.";

pub(super) const DOCTOR: &str = "\
Examples:
  synapse doctor
  synapse doctor --fix                                  fix what is safe to fix
  synapse doctor --json

Exit code 1 means that an error was found. Warnings do not count.";

pub(super) const CLEAN: &str = "\
Examples:
  synapse clean --dry-run                               show what would be removed
  synapse clean --stopped                               remove all stopped agents without mail
  synapse clean --forget shout
  synapse clean --uninstall --dry-run                   show what uninstalling would stop and remove

--uninstall stops all agents and removes ~/.synapse (or SYNAPSE_HOME) and the registry entries of Synapse. It lists \
and keeps other files there, the program itself, and what `synapse init` wrote.";

pub(super) const UPGRADE_AGENTS: &str = "\
Examples:
  synapse upgrade-agents --all --dry-run                list agents that run another version
  synapse upgrade-agents --all
  synapse upgrade-agents shout

The agent, its port, its mail and its running commands stay. Its holder keeps the old version until the agent is \
stopped and started again.";

pub(super) const UNINSTALL: &str = "\
Examples:
  synapse clean --uninstall                             the new name of this command";

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

It uses a temporary home, which it removes at the end. Your own home does not change.";

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::{Command, CommandFactory as _, Parser as _};

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

    fn examples(command: &Command) -> Vec<String> {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = text.lines().map(str::trim_start);
        lines.filter(|line| line.starts_with("synapse ")).map(str::to_owned).collect()
    }

    /// CLI-9: each command shows how it is used, and the command line accepts every example, also
    /// those of subcommands.
    #[test]
    fn every_command_has_examples_that_parse() {
        // A wider line would be wrapped, and its second half would look like another example.
        const COLUMNS_MAX: usize = 100;
        fn check(command: &Command, count: &mut usize) {
            for example in examples(command) {
                let parsed = Cli::try_parse_from(words(&example));
                assert!(parsed.is_ok(), "{example}: {}", parsed.err().unwrap());
                assert!(example.chars().count() + 2 <= COLUMNS_MAX, "{example}");
                *count += 1;
            }
            command.get_subcommands().for_each(|sub| check(sub, count));
        }
        let root = Cli::command();
        let mut count = 0;
        check(&root, &mut count);
        assert!(count > 100, "{count} examples");
        for command in root.get_subcommands() {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let name = command.get_name();
            assert!(text.starts_with("Examples:\n") && !examples(command).is_empty(), "{name}");
        }
    }

    /// The help of a former name shows the new name, and no page shows a former one.
    #[test]
    fn examples_use_current_names() {
        fn check(root: &Command, command: &Command, is_former: bool) {
            for example in examples(command) {
                let name = words(&example)[1].clone();
                let is_json = example.contains("--json");
                let used = root.find_subcommand(&name);
                let is_hidden = used.is_some_and(Command::is_hide_set);
                assert!(!is_hidden || is_former && is_json, "{}: {example}", command.get_name());
            }
            let subs = command.get_subcommands();
            subs.for_each(|sub| check(root, sub, is_former || sub.is_hide_set()));
        }
        let root = Cli::command();
        check(&root, &root, false);
    }
}
