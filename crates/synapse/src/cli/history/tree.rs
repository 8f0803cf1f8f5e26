//! A conversation as a tree: each message below the one that caused it. Pure.

use synapse_dialects::history::ConversationMessage;

/// Orders messages so that each comes after the one that caused it, those of one cause by time, and gives each its
/// depth. What caused a message may be gone, or may claim to be caused by it: such a message begins a tree.
pub(super) fn grow(mut all: Vec<ConversationMessage>) -> Vec<ConversationMessage> {
    all.sort_by(|a, b| key(a).cmp(&key(b)));
    let parents: Vec<Option<usize>> = all.iter().map(|child| parent_of(child, &all)).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
    for (child, parent) in parents.iter().enumerate() {
        if let Some(parent) = parent {
            children[*parent].push(child);
        }
    }
    let mut order = Vec::with_capacity(all.len());
    let mut is_placed = vec![false; all.len()];
    // Those of a ring of causes have no beginning; the earliest of them is as good as any.
    let roots = (0..all.len()).filter(|n| parents[*n].is_none()).chain(0..all.len());
    for root in roots {
        let mut waiting = vec![(root, 0)];
        while let Some((next, depth)) = waiting.pop() {
            if std::mem::replace(&mut is_placed[next], true) {
                continue;
            }
            order.push((next, depth));
            waiting.extend(children[next].iter().rev().map(|child| (*child, depth + 1)));
        }
    }
    let mut slots: Vec<Option<ConversationMessage>> = all.into_iter().map(Some).collect();
    let take = |(at, depth): (usize, usize)| Some(ConversationMessage { depth, ..slots[at].take()? });
    order.into_iter().filter_map(take).collect()
}

fn key(message: &ConversationMessage) -> (&str, u8, &str, &str) {
    let view = &message.line.record.message;
    (&view.accepted_at, view.hops, &view.to, &view.message_id)
}

/// The message that caused it. One id may be in several journals: then the one that its sender was given.
fn parent_of(child: &ConversationMessage, all: &[ConversationMessage]) -> Option<usize> {
    let view = &child.line.record.message;
    let wanted = view.parent_message_id.as_deref()?;
    let is_it = |other: &ConversationMessage| {
        let other = &other.line.record.message;
        other.message_id == wanted && (&other.message_id, &other.to) != (&view.message_id, &view.to)
    };
    let of_sender = |other: &ConversationMessage| other.line.record.message.to == view.from.sender_id;
    all.iter().position(|other| is_it(other) && of_sender(other)).or_else(|| all.iter().position(is_it))
}

/// What stands before a message and before the lines below it, drawn as branches.
pub(super) fn branches(depths: &[usize]) -> Vec<(String, String)> {
    let goes_on = |at: usize, depth: usize| {
        depths[at + 1..].iter().take_while(|later| **later >= depth).any(|later| *later == depth)
    };
    let draw = |(at, depth): (usize, &usize)| {
        let mut head = String::new();
        for level in 1..*depth {
            head.push_str(if goes_on(at, level) { "│  " } else { "   " });
        }
        let mut below = head.clone();
        if *depth > 0 {
            let (branch, line) = if goes_on(at, *depth) { ("├─ ", "│  ") } else { ("└─ ", "   ") };
            head.push_str(branch);
            below.push_str(line);
        }
        let has_children = depths.get(at + 1).is_some_and(|next| next > depth);
        below.push_str(if has_children { "│  " } else { "   " });
        (head, below)
    };
    depths.iter().enumerate().map(draw).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// A message from `from` to `to`, caused by `parent`.
    pub(in super::super) fn message(
        at: u32,
        id: &str,
        parent: Option<&str>,
        from: &str,
        to: &str,
    ) -> ConversationMessage {
        let mut value = json!({
            "depth": 0, "seq": at, "to_label": to, "sender_message_id": id, "message_id": id, "task_id": format!("{at:032x}"),
            "from": { "sender_id": from, "label": from, "by_user": false, "proof": "socket" }, "to": to, "priority": 6,
            "response_expected": true, "follow_up": false, "accepted_at": format!("2026-11-16T09:30:{at:02}.000Z"),
            "correlation_id": "a", "hops": 0, "text": format!("text of {id}"), "trail": [], "moves": [],
            "outcome": { "state": "working" },
        });
        if let Some(parent) = parent {
            value["parent_message_id"] = json!(parent);
        }
        serde_json::from_value(value).unwrap()
    }

    fn check(messages: &[(u32, &str, Option<&str>, &str, &str)], expected: &str) {
        let all =
            messages.iter().map(|(at, id, parent, from, to)| message(*at, id, *parent, from, to)).collect();
        let shown: Vec<String> = grow(all)
            .iter()
            .map(|m| {
                format!(
                    "{}{}>{}",
                    ".".repeat(m.depth),
                    m.line.record.message.message_id,
                    m.line.record.message.to
                )
            })
            .collect();
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn each_message_stands_below_its_cause() {
        check(&[], "");
        check(
            &[
                (4, "d", Some("b"), "B", "D"),
                (2, "b", Some("a"), "A", "B"),
                (1, "a", None, "user", "A"),
                (3, "c", Some("a"), "A", "C"),
                (5, "e", Some("a"), "A", "B"),
            ],
            "a>A .b>B ..d>D .c>C .e>B",
        );
    }

    #[test]
    fn what_has_no_cause_here_begins_a_tree() {
        check(&[(1, "b", Some("gone"), "A", "B"), (2, "c", Some("b"), "B", "C")], "b>B .c>C");
        check(&[(1, "a", Some("a"), "A", "B")], "a>B");
        check(&[(1, "a", Some("b"), "A", "B"), (2, "b", Some("a"), "B", "A")], "a>B .b>A");
    }

    #[test]
    fn one_id_for_many_agents_is_told_apart_by_its_sender() {
        check(
            &[
                (1, "all", None, "user", "A"),
                (1, "all", None, "user", "B"),
                (2, "from-b", Some("all"), "B", "C"),
                (3, "from-a", Some("all"), "A", "C"),
            ],
            "all>A .from-a>C all>B .from-b>C",
        );
    }

    #[test]
    fn branches_are_drawn() {
        let drawn = branches(&[0, 1, 2, 1, 2, 2]);
        let heads: Vec<&str> = drawn.iter().map(|(head, _)| head.as_str()).collect();
        assert_eq!(heads, ["", "├─ ", "│  └─ ", "└─ ", "   ├─ ", "   └─ "]);
        let below: Vec<&str> = drawn.iter().map(|(_, below)| below.as_str()).collect();
        assert_eq!(below, ["│  ", "│  │  ", "│        ", "   │  ", "   │     ", "         "]);
    }
}
