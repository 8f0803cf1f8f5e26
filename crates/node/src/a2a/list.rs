//! ListTasks: a caller's open tasks from memory and its ended tasks from the store, both as of one
//! record.

use super::view::Known;
use super::{Engine, other_answer};
use synapse_a2a::fault::Fault;
use synapse_a2a::from_core::Much;
use synapse_a2a::{page, pb};
use synapse_core::effect::{Answer, Command};
use synapse_core::ids::Seq;

/// A page ends with the task that makes it longer than this, even if more were requested (M8).
const PAGE_BYTES_MAX: usize = 4 << 20;

impl Engine {
    /// ListTasks (T3–T11).
    pub(super) async fn list(&self, request: pb::ListTasksRequest) -> Result<pb::ListTasksResponse, Fault> {
        let wanted = page::read(&request)?;
        let command = Command::OwnTasks(wanted.listing.clone());
        let asked = self.app.ask(self.caller.clone(), command).await;
        let (answer, _) = asked.map_err(|refusal| Fault::of(&refusal))?;
        let Answer::OwnTasks { tasks, total, at, as_of } = answer else { return Err(other_answer()) };
        let (who, listing) = (self.caller.sender().who, wanted.listing.clone());
        let ended = self.app.archive(move |history| history.own_tasks(&who, &listing, at)).await;
        let (ended, ended_total) = ended.map_err(|refusal| Fault::of(&refusal))?;
        let open = tasks.into_iter().map(|(place, task)| (place, Known::Open { task: Box::new(task), at }));
        let ended = ended.into_iter().map(|own| {
            let known = Known::Ended {
                ending: own.ending,
                archive: Box::new(own.archive),
                at: Seq(u64::MAX),
                heard: None,
            };
            (own.place, known)
        });
        let mut all: Vec<_> = open.chain(ended).collect();
        all.sort_by_key(|(place, known)| std::cmp::Reverse((*place, known.task().id)));
        let much = Much { history: wanted.history, artifacts: wanted.artifacts };
        let (mut tasks, mut bytes) = (Vec::new(), 0);
        for (_, known) in all.iter().take(wanted.size) {
            let task = self.tell(known, much).await?;
            bytes += page::bytes_of(&task);
            tasks.push(task);
            if bytes > PAGE_BYTES_MAX {
                break;
            }
        }
        let last = tasks.len().checked_sub(1).and_then(|last| all.get(last));
        let next_page_token = match last.filter(|_| all.len() > tasks.len()) {
            Some((place, last)) => wanted.next(*place, last.task().id, as_of),
            None => String::new(),
        };
        Ok(pb::ListTasksResponse {
            tasks,
            next_page_token,
            page_size: i32::try_from(wanted.size).unwrap_or(i32::MAX),
            total_size: i32::try_from(total as u64 + ended_total).unwrap_or(i32::MAX),
        })
    }
}
