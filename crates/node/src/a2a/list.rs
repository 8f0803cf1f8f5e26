//! ListTasks: the open tasks of a caller out of memory, the ended ones out of the store, as of one record.

use super::view::Known;
use super::{Engine, other_answer};
use synapse_a2a::fault::Fault;
use synapse_a2a::from_core::Much;
use synapse_a2a::{page, pb};
use synapse_core::effect::{Answer, Command};
use synapse_core::ids::Seq;

impl Engine {
    /// T3–T11.
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
        let is_more = all.len() > wanted.size;
        all.truncate(wanted.size);
        let next_page_token = match all.last().filter(|_| is_more) {
            Some((place, last)) => wanted.next(*place, last.task().id, as_of),
            None => String::new(),
        };
        let much = Much { history: wanted.history, artifacts: wanted.artifacts };
        let mut tasks = Vec::with_capacity(all.len());
        for (_, known) in &all {
            tasks.push(self.tell(known, much).await?);
        }
        Ok(pb::ListTasksResponse {
            tasks,
            next_page_token,
            page_size: i32::try_from(wanted.size).unwrap_or(i32::MAX),
            total_size: i32::try_from(total as u64 + ended_total).unwrap_or(i32::MAX),
        })
    }
}
