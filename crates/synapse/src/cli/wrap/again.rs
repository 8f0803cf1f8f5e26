//! `synapse start`: the same program once more, with the conversation that it had last.
//!
//! Its user's words, and where its settings and sessions are, stay as they were; the rest is as its profile has it today.
//! Not here: which conversation that is (`resume`).

use super::{as_before, environment, size};
use crate::fail::{self, Fail};
use crate::profiles;
use crate::resume::{self, Begins, Words};
use crate::tells;
use crate::viewer::Person;
use synapse_node::Launch;
use synapse_node::launch::{InTerminal, Tells};
use synapse_store::home::Home;
use synapse_terminal::Profile;

pub(in super::super) fn renewed(
    launch: &Launch,
    before: &InTerminal,
    person: Option<&Person>,
    fresh: bool,
) -> Result<(InTerminal, Begins), Fail> {
    let (home, folder) = (Home::from_env()?, launch.working_dir.as_path());
    let asked_in = before.profile_folder.as_deref().filter(|asked_in| asked_in.is_dir()).unwrap_or(folder);
    let name = Profile::parse(&before.profile)
        .map_err(|e| Fail::new(fail::ERROR, "not_startable", format!("its profile is damaged: {e}")))?
        .name;
    let (found, notices) = profiles::find(&home, asked_in, &name)?;
    profiles::warn(&notices);
    let found = found.ok_or_else(|| {
        Fail::refused(format!(
            "its profile {name} is gone\nhint: `synapse profile list` shows those there are"
        ))
    })?;
    let profile = &found.profile;
    let (program, own_args, given) = match &before.given {
        Some(given) => (profile.command.clone(), tells::known_args(profile), given.clone()),
        None => {
            let (program, given) = before.argv.split_first().ok_or_else(|| Fail::refused("no program"))?;
            (program.clone(), Vec::new(), given.to_vec())
        }
    };
    let last = resume::last_of(&home, launch, before, profile);
    let Words { args, session, begins } = resume::next_words(profile, &program, &given, last, fresh);
    let resumes = match begins {
        Begins::Earlier(_) => true,
        Begins::AsSaid => resume::asks_for_earlier(profile, &given),
        Begins::New(_) => false,
    };
    let argv = [vec![program], own_args, args].concat();
    let tells = match &before.tells {
        log @ Tells::SessionLog { .. } => log.clone(),
        _ => tells::choose(profile, &argv, folder),
    };
    let size = size(person);
    let renewed = InTerminal {
        env: as_before(environment(&profile.env), &before.env),
        tells,
        argv,
        profile: found.text,
        project_profile: found.project.map(|part| part.text),
        columns: size.0,
        rows: size.1,
        colours: person.and_then(Person::colours),
        session,
        resumes,
        ..before.clone()
    };
    Ok((renewed, begins))
}
