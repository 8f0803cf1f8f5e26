//! Output as golden files: the JSON of `config show`, the schema, and the settings page.

use crate::load;
use std::path::{Path, PathBuf};
use synapse_settings::views::{LoadedView, page_table, schema};
use synapse_testkit::golden;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/settings/golden").join(name)
}

#[test]
fn golden_show() {
    let user = "{\n  \"rights\": { \"Lead\": [\"read\", \"assign\"] },\n  \"secrets\": { \"ci\": { \"file\": \"~/ci\", \"role\": \"Lead\" } },\n  \"network\": { \"allow\": [\"10.0.0.0/8\"] }\n}";
    let loaded =
        load(Some(user), Some("{ \"a2a\": { \"flow\": \"oneway\" } }"), &[("SYNAPSE_HISTORY_DAYS", "60")]);
    golden::check_json(
        &file("show.json"),
        &serde_json::to_value(LoadedView::new(&loaded, |_| true)).unwrap(),
    );
    let wrong = load(Some("{ \"network\": { \"listen\": \"everywhere\" } }"), None, &[]);
    let view = LoadedView::new(&wrong, |one| one.path.starts_with("network."));
    golden::check_json(&file("show_wrong.json"), &serde_json::to_value(view).unwrap());
}

#[test]
fn golden_schema() {
    golden::check_json(&file("schema.json"), &schema());
}

/// The table on the page matches the code.
#[test]
fn golden_page_of_settings() {
    const MARKS: (&str, &str) = ("<!-- all settings: begin -->\n", "<!-- all settings: end -->");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(MARKS.0).expect("the page has the mark where the table begins");
    let (_, after) = rest.split_once(MARKS.1).expect("the page has the mark where the table ends");
    let now = format!("{before}{}{}{}{after}", MARKS.0, page_table(), MARKS.1);
    golden::check(&page, &now);
}
