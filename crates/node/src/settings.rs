//! The current settings of a node: those of its home and of the folder its agent works in.
//!
//! A node starts and keeps running whatever the files contain: invalid settings are logged and
//! ignored. Settings that guard the machine then keep their last value. If there is none, the
//! network is closed (`synapse_settings::layers`).
//!
//! Invariant: `get` checks the files at most once a second, and reads them only if they changed.
//! Not here: what the settings mean.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use synapse_settings::disk::Stamp;
use synapse_settings::{Fault, Places, Settings};
use synapse_store::Retention;

/// The current settings; cheap to clone and to query.
#[derive(Debug, Clone)]
pub struct Current(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    places: Places,
    settings: Arc<Settings>,
    faults: Vec<Fault>,
    stamp: Stamp,
    looked: Instant,
}

/// How long a result is valid without checking the files again.
const GOOD_FOR: Duration = Duration::from_secs(1);

impl Current {
    /// `home` is the root of Synapse's home, `folder` the folder where the agent works.
    pub fn new(home: &Path, folder: &Path) -> Self {
        Self::at(Places::here(home, folder), Instant::now())
    }

    pub fn get(&self) -> Arc<Settings> {
        self.get_at(Instant::now())
    }

    fn at(places: Places, now: Instant) -> Self {
        // Taken before reading, so that a change in between causes another read.
        let stamp = places.stamp();
        let mut held = Held { places, settings: Arc::default(), faults: Vec::new(), stamp, looked: now };
        held.read(None);
        Self(Arc::new(Mutex::new(held)))
    }

    fn get_at(&self, now: Instant) -> Arc<Settings> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(held.looked) >= GOOD_FOR {
            held.looked = now;
            let stamp = held.places.stamp();
            // File times are coarse: a file written just now may be written again and keep the same
            // time.
            if stamp != held.stamp || stamp.is_fresh(SystemTime::now()) {
                held.stamp = stamp;
                let before = held.settings.clone();
                held.read(Some(&before));
            }
        }
        held.settings.clone()
    }
}

impl Held {
    fn read(&mut self, before: Option<&Settings>) {
        let loaded = synapse_settings::load(&self.places);
        let in_doubt = loaded.guard_in_doubt();
        if loaded.faults != self.faults {
            for fault in &loaded.faults {
                tracing::warn!(%fault, "a setting is left out");
            }
            if in_doubt && before.is_none() {
                tracing::warn!("the network is closed to others until the user's settings are right");
            }
        }
        self.faults = loaded.faults;
        let mut settings = loaded.settings;
        if let Some(before) = before.filter(|_| in_doubt) {
            settings.take_guarded(before);
        }
        if settings != *self.settings {
            tracing::info!("settings were read");
            self.settings = Arc::new(settings);
        }
    }
}

/// Returns how long the journal keeps ended tasks.
pub fn retention(settings: &Settings) -> Retention {
    let history = settings.history;
    Retention { days: history.days, ended_max: history.tasks_max, ..Retention::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_settings::Flow;

    struct Rig {
        root: tempfile::TempDir,
        start: Instant,
        current: Current,
    }

    impl Rig {
        fn new(user: &str) -> Self {
            let root = tempfile::tempdir().unwrap();
            let (home, folder) = (root.path().join("home"), root.path().join("project"));
            std::fs::create_dir_all(&home).unwrap();
            std::fs::create_dir_all(folder.join(".synapse")).unwrap();
            std::fs::write(home.join("settings.json"), user).unwrap();
            let places = Places { home, folder, user_folder: None, variables: Default::default() };
            let start = Instant::now();
            Self { root, start, current: Current::at(places, start) }
        }

        fn write(&self, file: &str, text: &str) {
            std::fs::write(self.root.path().join(file), text).unwrap();
        }

        fn after_ms(&self, ms: u64) -> Arc<Settings> {
            self.current.get_at(self.start + Duration::from_millis(ms))
        }
    }

    const USER: &str = "home/settings.json";
    const PROJECT: &str = "project/.synapse/settings.json";

    #[test]
    fn a_changed_file_is_seen_within_a_second_and_not_looked_at_before() {
        let rig = Rig::new("{\"history\": {\"days\": 60}}");
        assert_eq!(rig.after_ms(0).history.days, 60);
        rig.write(USER, "{\"history\": {\"days\": 90}}");
        rig.write(PROJECT, "{\"a2a\": {\"flow\": \"oneway\"}}");
        let (soon, again) = (rig.after_ms(999), rig.after_ms(0));
        assert!(Arc::ptr_eq(&soon, &again) && soon.history.days == 60);
        let new = rig.after_ms(1_000);
        assert_eq!((new.history.days, new.a2a.flow), (90, Flow::Oneway));
        assert_eq!(retention(&new), Retention { days: 90, ..Retention::default() });
        assert!(Arc::ptr_eq(&new, &rig.after_ms(5_000)), "nothing changed, so nothing was read");
    }

    /// REST-4..6: a file that breaks while the node runs opens nothing.
    #[test]
    fn what_guards_the_machine_outlives_a_broken_file() {
        let rig = Rig::new(
            "{\"network\": {\"listen\": \"0.0.0.0\", \"allow\": [\"10.0.0.5\"]}, \"rights\": {\"Guest\": []}, \
             \"history\": {\"days\": 60}}",
        );
        let before = rig.after_ms(0);
        assert_eq!(before.network.allow, ["10.0.0.5"]);
        for (n, broken) in ["{", "{\"network\": {\"allow\": []}, \"rihgts\": {}}", "\u{0}"].iter().enumerate()
        {
            rig.write(USER, broken);
            let now = rig.after_ms(1_000 * (n as u64 + 1));
            assert_eq!((&now.network, &now.rights), (&before.network, &before.rights), "{broken}");
            assert_eq!(now.history.days, 30, "a harmless setting goes to its default: {broken}");
        }
        rig.write(USER, "{}");
        assert_eq!(*rig.after_ms(10_000), Settings::default(), "taken out on purpose is taken out");
    }

    #[test]
    fn a_node_that_starts_on_a_broken_file_is_closed() {
        let closed = Rig::new("{\"network\": {\"listen\": \"0.0.0.0\"}, \"audit\": 1}").after_ms(0);
        assert_eq!(closed.network.listen, None);
        assert_eq!(closed.network.allow, ["127.0.0.0/8", "::1"]);
        let rig = Rig::new("{\"network\": {\"listen\": \"0.0.0.0\"}}");
        rig.write(PROJECT, "{\"network\": {\"listen\": \"::\"}, \"audit\": {\"enabled\": false}, \"x\": 1");
        let own = rig.after_ms(1_000);
        assert_eq!(own.network.listen, "0.0.0.0".parse().ok(), "a project cannot close it, nor change it");
        assert!(own.audit.enabled);
    }
}
