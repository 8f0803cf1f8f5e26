//! `synapse profile record`: a program's terminal as an asciinema cast, and beside it the states it was seen in.
//!
//! The recorder is a client of the holder like any viewer: it writes down what is printed, typed and resized, and what
//! the node says of it meanwhile. `synapse profile test` reads both files.

use super::wrap::{self, Chosen};
use super::{Network, Who};
use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use crate::viewer::{self, Left, Person};
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use synapse_holder::terminal::wire::{Ask, Frames, LEVEL, Role, Tell, receive, send};
use synapse_store::home::{Home, socket_address};
use synapse_terminal::cast::{self, Cast, Stated};

#[derive(Args)]
pub(super) struct Record {
    /// Running agent to record, or a program after `--`
    #[arg(required_unless_present = "program", conflicts_with = "program")]
    agent: Option<String>,
    /// File to write [default: named after the agent or program]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Profile of the program [default: by its name]
    #[arg(long, requires = "program")]
    profile: Option<String>,
    /// Name of the new agent
    #[arg(long, requires = "program")]
    name: Option<String>,
    /// Do not record typed keys
    #[arg(long)]
    no_input: bool,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
    /// Run and record this program in its own terminal
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

pub(super) fn record(args: Record, json: bool) -> Done {
    match args.agent.clone() {
        Some(agent) => record_agent(&args, &agent, json),
        None => record_program(args, json),
    }
}

/// What runs already, until it ends or the person has enough.
fn record_agent(args: &Record, agent: &str, json: bool) -> Done {
    let roll = Roll::call()?;
    let id = roll.find_one(agent)?.id;
    let (label, socket) = (roll.label(&id), roll.home.agent(&id).terminal());
    if !socket.exists() {
        return Err(super::attach::no_terminal(&roll, &id));
    }
    super::attach::refuse_agents(&roll, &label, "record")?;
    let files = Files::create(args, &label)?;
    let stream = connect(&socket)?;
    end_on_signals(&stream)?;
    if show::err_on_terminal() && !json {
        eprintln!("{}", show::paint_err("2", &format!("recording {label}; Ctrl-C ends that, not {label}")));
    }
    files.warn(json);
    let recorded = Recorder::new(files, !args.no_input, &label).work(stream)?;
    recorded.tell(None, json)
}

fn record_program(args: Record, json: bool) -> Done {
    let chosen = Chosen::of(&args.program, args.profile.as_deref())?;
    let file = args.program[0].rsplit('/').next().unwrap_or_default().to_owned();
    let files = Files::create(&args, args.name.as_deref().unwrap_or(&file))?;
    files.warn(json);
    chosen.warn();
    let attach = io::stdin().is_terminal() && io::stdout().is_terminal();
    if attach {
        viewer::warn_of_prefix(&Home::from_env()?);
    }
    let person = attach.then(Person::meet).transpose()?;
    let who = Who {
        name: args.name.clone(),
        kind: None,
        role: None,
        skills: Vec::new(),
        description: None,
        interfaces: None,
        input_modes: None,
        output_modes: None,
        no_streaming: false,
        no_push: false,
        port: None,
        cwd: None,
        network: Network::default(),
    };
    let profile = chosen.profile().to_owned();
    let started = match wrap::launch(who, chosen, person.as_ref()) {
        Ok(started) => started,
        Err(fail) => {
            files.remove();
            return Err(fail);
        }
    };
    let home = Home::from_env()?;
    let stream = connect(&home.agent(&started.id).terminal())?;
    let recorder = Recorder::new(files, !args.no_input, &args.program.join(" "));
    let Some(person) = person else {
        end_on_signals(&stream)?;
        let recorded = recorder.work(stream)?;
        recorded.tell(Some(&profile), json)?;
        return recorded.ended.map_or(Ok(()), |code| wrap::tell_left(&started.label(), &Left::Ended(code)));
    };
    let line = stream.try_clone()?;
    let writer = std::thread::Builder::new().name("recorder".into()).spawn(move || recorder.work(stream))?;
    let left = viewer::view(person, &home, started.id, Role::Viewer)?;
    if !matches!(left, Left::Ended(_)) {
        let _ = line.shutdown(std::net::Shutdown::Both);
    }
    let recorded = writer.join().map_err(|_| Fail::new(fail::ERROR, "error", "the recorder died"))??;
    recorded.tell(Some(&profile), json)?;
    wrap::tell_left(&started.label(), &left)
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let (address, _guard) = socket_address(socket).map_err(io::Error::other)?;
    let mut stream = UnixStream::connect(address)?;
    send(&mut stream, &Ask::Hello { role: Role::Recorder, columns: 0, rows: 0, level: LEVEL })?;
    Ok(stream)
}

/// A recording that is stopped is whole.
fn end_on_signals(stream: &UnixStream) -> io::Result<()> {
    let stream = stream.try_clone()?;
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    })?;
    Ok(())
}

/// The two files of a recording; there from the beginning, so that nothing is recorded in vain.
struct Files {
    cast: File,
    cast_path: PathBuf,
    states_path: PathBuf,
    has_input: bool,
}

impl Files {
    fn create(args: &Record, name: &str) -> Result<Self, Fail> {
        let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
        let named = || PathBuf::from(format!("{}.cast", name.chars().map(plain).collect::<String>()));
        let cast_path = args.output.clone().unwrap_or_else(named);
        let states_path = cast_path.with_extension("json");
        if cast_path == states_path {
            return Err(Fail::usage("a cast that ends in .json would be its own file of states; use .cast"));
        }
        let there = [&cast_path, &states_path].into_iter().find(|path| path.exists());
        if let Some(path) = there.filter(|_| !args.force) {
            return Err(Fail::refused(format!(
                "{} is there already; --force writes over it, -o names another file",
                path.display()
            )));
        }
        // The states first: a cast is only there with them.
        create(&states_path, args.force)?;
        let cast = create(&cast_path, args.force)?;
        Ok(Self { cast, cast_path, states_path, has_input: !args.no_input })
    }

    fn warn(&self, json: bool) {
        if self.has_input && !json {
            let path = self.cast_path.display();
            let words = format!("what is typed will be in {path}, secrets too; --no-input leaves it out");
            eprintln!("{}", show::paint_err("2", &words));
        }
    }

    /// Nothing was recorded.
    fn remove(&self) {
        let _ = std::fs::remove_file(&self.cast_path);
        let _ = std::fs::remove_file(&self.states_path);
    }
}

/// For its owner alone, also if it was there with other rights.
fn create(path: &Path, force: bool) -> Result<File, Fail> {
    use std::os::unix::fs::PermissionsExt as _;
    let told = |e: io::Error| Fail::usage(format!("{} cannot be written: {e}", path.display()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).mode(0o600);
    let options = if force { options.create(true).truncate(true) } else { options.create_new(true) };
    let file = options.open(path).map_err(told)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(told)?;
    Ok(file)
}

struct Recorder {
    files: Files,
    with_input: bool,
    title: String,
    cast: Cast,
    began: Instant,
    states: Vec<Stated>,
    has_head: bool,
    size: (u16, u16),
    ended: Option<i32>,
    /// The terminal ended, or we did.
    is_cut: bool,
}

/// A recording that is over.
struct Recorded {
    cast: PathBuf,
    states: PathBuf,
    count: usize,
    lasted: Duration,
    ended: Option<i32>,
}

impl Recorder {
    fn new(files: Files, with_input: bool, title: &str) -> Self {
        Self {
            files,
            with_input,
            title: title.to_owned(),
            cast: Cast::default(),
            began: Instant::now(),
            states: vec![Stated {
                at_ms: 0,
                state: "starting".into(),
                why: "nothing is known of it yet".into(),
            }],
            has_head: false,
            size: (0, 0),
            ended: None,
            is_cut: false,
        }
    }

    /// Until the program or the connection ends.
    fn work(mut self, mut stream: UnixStream) -> io::Result<Recorded> {
        let mut frames = Frames::default();
        while !self.is_cut {
            match receive(&mut stream, &mut frames) {
                Ok(Some(tell)) => self.told(tell)?,
                Ok(None) | Err(_) => self.is_cut = true,
            }
        }
        let lasted = self.began.elapsed();
        std::fs::write(&self.files.states_path, cast::states(&self.states))?;
        Ok(Recorded {
            cast: self.files.cast_path,
            states: self.files.states_path,
            count: self.states.len(),
            lasted,
            ended: self.ended,
        })
    }

    fn told(&mut self, tell: Tell) -> io::Result<()> {
        let at = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let line = match tell {
            Tell::Welcome { columns, rows, .. } if !self.has_head => {
                (self.has_head, self.size) = (true, (columns, rows));
                Cast::head(columns, rows, synapse_node::driver::now().0 / 1000, &self.title)
            }
            Tell::Picture(bytes) | Tell::Output(bytes) => self.cast.output(at, &bytes),
            Tell::Typed(bytes) if self.with_input => self.cast.input(at, &bytes),
            Tell::Resized { columns, rows } if (columns, rows) != self.size => {
                self.size = (columns, rows);
                Cast::resize(at, columns, rows)
            }
            Tell::State { state, why } => {
                // A program that is over has no state that could be recorded.
                if state != "offline" && self.states.last().is_none_or(|last| last.state != state) {
                    self.states.push(Stated { at_ms: at, state, why });
                }
                String::new()
            }
            Tell::Ended { code, signaled } => {
                self.ended = Some(if signaled { 128 + code } else { code });
                self.is_cut = true;
                String::new()
            }
            Tell::Refused(why) => return Err(io::Error::new(io::ErrorKind::PermissionDenied, why)),
            _ => String::new(),
        };
        self.files.cast.write_all(line.as_bytes())
    }
}

impl Recorded {
    fn tell(&self, profile: Option<&str>, json: bool) -> Done {
        let ms = u64::try_from(self.lasted.as_millis()).unwrap_or(u64::MAX);
        if json {
            show::json(&serde_json::json!({
                "recording": self.cast, "states": self.states, "state_changes": self.count, "duration_ms": ms,
                "profile": profile, "exit_code": self.ended,
            }));
            return Ok(());
        }
        let (cast, states) = (self.cast.display(), self.states.display());
        show::out(&format!(
            "{cast}, {:.1} s, and the {} states it was seen in: {states}",
            ms as f64 / 1000.0,
            self.count
        ));
        let profile = profile.unwrap_or("PROFILE");
        show::out(&show::paint("2", &format!("synapse profile test {profile} --recording {cast}")));
        Ok(())
    }
}
