//! Files: which are read, which are not trusted, and how they are replaced.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use synapse_settings::disk::{Whose, change};
use synapse_settings::edit::Change;
use synapse_settings::{Flow, Places, keys, load, trust};

struct Rig {
    root: tempfile::TempDir,
    places: Places,
}

impl Rig {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        let at = |name: &str| real.join(name);
        std::fs::create_dir_all(at("user/.synapse")).unwrap();
        std::fs::create_dir_all(at("user/team/project/src")).unwrap();
        let places = Places {
            home: at("user/.synapse"),
            folder: at("user/team/project/src"),
            user_folder: Some(at("user")),
            variables: Default::default(),
        };
        Self { root, places }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let file = self.at(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        file
    }

    /// Checks that there is one fault, and that it is about this file.
    #[track_caller]
    fn fault(&self, file: &Path, says: &str) {
        let loaded = load(&self.places);
        let told: Vec<String> = loaded.faults.iter().map(ToString::to_string).collect();
        let [one] = &told[..] else { panic!("{told:?}") };
        assert!(one.starts_with(&file.display().to_string()) && one.contains(says), "{one}");
        assert!(one.ends_with('`'), "it ends with what helps: {one}");
    }

    /// Checks that one thing is ignored, and that it is about this file.
    #[track_caller]
    fn ignored(&self, file: &Path, says: &str) {
        let loaded = load(&self.places);
        assert_eq!(loaded.faults, []);
        let told: Vec<String> = loaded.ignored.iter().map(ToString::to_string).collect();
        let [one] = &told[..] else { panic!("{told:?}") };
        assert!(one.starts_with(&file.display().to_string()) && one.contains(says), "{one}");
    }
}

const USER: &str = "user/.synapse/settings.json";
const TEAM: &str = "user/team/.synapse/settings.json";
const PROJECT: &str = "user/team/project/.synapse/settings.json";
const ONEWAY: &str = "{\"a2a\": {\"flow\": \"oneway\"}}";

#[test]
fn the_nearest_file_above_is_the_projects() {
    let rig = Rig::new();
    assert_eq!(rig.places.project_file(), None);
    let team = rig.write(TEAM, ONEWAY);
    assert_eq!(rig.places.project_file(), Some(team));
    assert_eq!(load(&rig.places).settings.a2a.flow, Flow::Oneway);
    let project = rig.write(PROJECT, "{}");
    assert_eq!(rig.places.project_file(), Some(project));
    assert_eq!(load(&rig.places).settings.a2a.flow, Flow::Auto, "the nearest one, not all of them");
}

/// The user's file is above most folders, and may contain what no project may.
#[test]
fn the_users_file_is_never_a_projects() {
    let rig = Rig::new();
    let user = rig.write(USER, "{\"audit\": {\"bodies\": true}, \"a2a\": {\"flow\": \"oneway\"}}");
    let loaded = load(&rig.places);
    assert_eq!((loaded.faults, loaded.files.project), (vec![], None));
    assert!(loaded.settings.audit.bodies);
    // With a second home, the first one is still not a project.
    let mut elsewhere = rig.places.clone();
    elsewhere.home = rig.at("other");
    let loaded = load(&elsewhere);
    assert_eq!((loaded.faults, loaded.settings.a2a.flow), (vec![], Flow::Auto));
    // Through a link.
    std::fs::create_dir_all(rig.at(PROJECT).parent().unwrap()).unwrap();
    symlink(&user, rig.at(PROJECT)).unwrap();
    assert_eq!(load(&rig.places).files.project, None);
}

#[test]
fn what_is_no_file_of_text_is_told() {
    let rig = Rig::new();
    let file = rig.write(USER, b"{\n\n \"a2a\": \"\xff\"}");
    rig.fault(&file, "not UTF-8 text from line 3 on");
    rig.write(USER, vec![b' '; (1 << 20) + 1]);
    rig.fault(&file, "more than 1048576 bytes");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    rig.fault(&file, "it is a folder");
    std::fs::remove_dir(&file).unwrap();
    symlink(&file, &file).unwrap();
    rig.fault(&file, "circle of symbolic links");
    std::fs::remove_file(&file).unwrap();
    symlink("/dev/null", &file).unwrap();
    rig.fault(&file, "it is not a plain file");
    std::fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    rig.fault(&file, "it is not a plain file");
    std::fs::remove_file(&file).unwrap();
    symlink(rig.at("nowhere"), &file).unwrap();
    assert_eq!(load(&rig.places).faults, [], "a link to nothing is no file");
}

/// Finding H3: an unreadable project file is ignored and reported; no command fails because of it.
#[test]
fn project_file_that_may_not_be_read_is_ignored() {
    let rig = Rig::new();
    let file = rig.write(PROJECT, b"{\n\n \"a2a\": \"\xff\"}");
    rig.fault(&file, "not UTF-8 text from line 3 on");
    rig.write(PROJECT, vec![b' '; (1 << 20) + 1]);
    rig.ignored(&file, "more than 1048576 bytes");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    rig.ignored(&file, "it is a folder");
    std::fs::remove_dir(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    rig.ignored(&file, "it is not a plain file");
    std::fs::remove_file(&file).unwrap();
    let elsewhere = rig.write("elsewhere.json", ONEWAY);
    symlink(&elsewhere, &file).unwrap();
    rig.ignored(&file, "symbolic link");
    assert_eq!(load(&rig.places).settings.a2a.flow, Flow::Auto);
    std::fs::remove_file(&file).unwrap();
    rig.write(PROJECT, ONEWAY);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    rig.ignored(&file, "other users of this machine may write it (mode 666)");
    assert_eq!(load(&rig.places).settings.a2a.flow, Flow::Auto);
}

/// Finding H3: without trust a project can only be more restrictive; one
/// changed byte ends the trust.
#[test]
fn trusted_settings_of_a_project_count_until_they_change() {
    let rig = Rig::new();
    rig.write(USER, "{\"history\": {\"days\": 60}}");
    let text = "{\"history\": {\"days\": 7, \"tasks_max\": 2000000}, \"terminal\": {\"notices\": false}}";
    let file = rig.write(PROJECT, text);
    let held = || {
        let loaded = load(&rig.places);
        let ignored: Vec<String> = loaded.ignored.iter().map(ToString::to_string).collect();
        ((loaded.settings.history.days, loaded.settings.terminal.notices), ignored)
    };
    let (values, ignored) = held();
    assert_eq!(values, (60, true));
    assert_eq!(load(&rig.places).settings.history.tasks_max, 2_000_000);
    assert_eq!(ignored.len(), 2, "{ignored:?}");
    assert!(ignored[0].contains("history.days") && ignored[0].contains("synapse trust"), "{ignored:?}");
    let before = rig.places.stamp();
    let path = rig.places.project_file().unwrap();
    let one = trust::TrustedFile { path, sha256: trust::hash(text.as_bytes()), at_ms: 0 };
    trust::add(&rig.places.home, vec![one]).unwrap();
    assert_ne!(rig.places.stamp(), before, "a node sees that it is trusted now");
    assert_eq!(held(), ((7, false), vec![]));
    std::fs::write(&file, format!("{text} ")).unwrap();
    assert_eq!(held().0, (60, true));
    let guarded =
        "{\"audit\": {\"enabled\": false}, \"notify\": {\"command\": [\"/tmp/x\"], \"bell\": false}}";
    rig.write(PROJECT, guarded);
    let path = rig.places.project_file().unwrap();
    let one = trust::TrustedFile { path, sha256: trust::hash(guarded.as_bytes()), at_ms: 0 };
    trust::add(&rig.places.home, vec![one]).unwrap();
    let loaded = load(&rig.places);
    assert!(loaded.settings.audit.enabled, "what guards the machine is never a project's");
    assert_eq!(loaded.settings.notify, synapse_settings::Notify::default(), "nor is a program");
    assert!(loaded.faults.iter().any(|fault| fault.to_string().contains("notify guards this machine")));
}

#[test]
fn a_users_file_that_all_may_write_is_not_believed() {
    let rig = Rig::new();
    let file = rig.write(USER, ONEWAY);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    rig.fault(&file, "other users of this machine may write it (mode 666)");
    assert!(load(&rig.places).guard_in_doubt());
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o664)).unwrap();
    assert_eq!(load(&rig.places).faults, []);
}

/// Only root can create files of others; elsewhere the test is skipped.
#[test]
fn files_of_another_user_are_ignored() {
    let rig = Rig::new();
    let (user, team) = (rig.write(USER, "{}"), rig.write(TEAM, ONEWAY));
    if std::os::unix::fs::chown(&team, Some(12_345), None).is_err() {
        return;
    }
    assert_eq!(rig.places.project_file(), None, "nobody puts settings above our folders");
    rig.ignored(&team.canonicalize().unwrap(), "belongs to another user (uid 12345)");
    std::os::unix::fs::chown(&team, Some(0), None).unwrap();
    assert!(rig.places.project_file().is_some());
    std::os::unix::fs::chown(&rig.places.folder, Some(12_345), None).unwrap();
    assert_eq!(rig.places.project_file(), None, "H3: nor does whoever owns the folder we work in");
    std::os::unix::fs::chown(&user, Some(12_345), None).unwrap();
    let told = load(&rig.places).faults[0].to_string();
    assert!(told.contains("belongs to another user (uid 12345)"), "{told}");
}

#[test]
fn a_change_is_whole_private_and_through_links() {
    let rig = Rig::new();
    let (key, name) = keys::find("a2a.flow").unwrap();
    let set = |file: &Path, whose, value| {
        change(&rig.places, file, whose, &[Change::Set { key, name, value }]).map(|left| left.len())
    };
    let mode = |file: &Path| file.metadata().unwrap().mode() & 0o777;
    let user = rig.at(USER);
    assert_eq!(set(&user, Whose::User, "oneway").unwrap(), 0);
    assert_eq!(mode(&user), 0o600);
    assert_eq!(load(&rig.places).settings.a2a.flow, Flow::Oneway);
    let before = rig.places.stamp();
    std::fs::set_permissions(&user, PermissionsExt::from_mode(0o640)).unwrap();
    set(&user, Whose::User, "roundtrip").unwrap();
    assert_eq!(mode(&user), 0o640, "an old file keeps its rights");
    assert_ne!(rig.places.stamp(), before);
    let kept = rig.write("dotfiles/settings.json", "{}");
    std::fs::remove_file(&user).unwrap();
    symlink(&kept, &user).unwrap();
    set(&user, Whose::User, "oneway").unwrap();
    assert!(user.is_symlink() && std::fs::read_to_string(&kept).unwrap().contains("oneway"));
    let text = std::fs::read_to_string(&kept).unwrap();
    assert!(set(&user, Whose::User, "both").is_err());
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), text);
    for folder in ["user/.synapse", "dotfiles"] {
        let names: Vec<_> =
            std::fs::read_dir(rig.at(folder)).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(names, ["settings.json"], "nothing is left over in {folder}");
    }
}

#[test]
fn changes_at_once_are_all_kept() {
    let rig = Rig::new();
    let user = rig.at(USER);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (places, user) = (&rig.places, &user);
            scope.spawn(move || {
                let path = format!("rights.Role{n}");
                let (key, name) = keys::find(&path).unwrap();
                change(places, user, Whose::User, &[Change::Set { key, name, value: "read" }]).unwrap();
            });
        }
    });
    assert_eq!(load(&rig.places).settings.rights.len(), 8);
}

#[test]
fn a_change_that_cannot_be_written_says_so() {
    let rig = Rig::new();
    let (key, name) = keys::find("a2a.flow").unwrap();
    let nowhere = rig.at("no/such/settings.json");
    let told = change(&rig.places, &nowhere, Whose::User, &[Change::Set { key, name, value: "auto" }]);
    assert!(told.unwrap_err().to_string().contains("cannot be written"));
    let nothing = rig.at("user/team/project/settings.json");
    change(&rig.places, &nothing, Whose::Project, &[Change::Unset { path: "a2a" }]).unwrap();
    assert!(!nothing.exists(), "nothing to take out makes no file");
}
