//! Carries out what is due: sends keys to the holder, and looks at the terminal again between two
//! steps.

use super::{Sitting, now};
use synapse_holder::terminal::wire::Ask;
use tokio::time::Instant;

impl Sitting<'_> {
    /// Runs until there is nothing left to do for what is on the screen now.
    pub(super) async fn type_on(&mut self) -> bool {
        while self.do_what_is_due().await {
            if !self.typist.must_look_again() {
                return true;
            }
            if !self.read_what_is_there().await {
                return false;
            }
        }
        false
    }

    /// Reads what arrived while something was being stored.
    async fn read_what_is_there(&mut self) -> bool {
        let mut buffer = vec![0; 64 << 10];
        match self.stream.try_read(&mut buffer) {
            Ok(0) => return false,
            Ok(read) => self.frames.feed(&buffer[..read]),
            Err(_) => return true,
        }
        let taken = self.take_frames(&mut buffer).await;
        self.hand.seat.watch().tick(now());
        taken
    }

    /// Adds our output position to keys that respond to what was seen. A holder of an older version
    /// cannot check it and gets plain input.
    fn guard(&mut self, ask: Ask) -> Ask {
        let Ask::Press { keys, .. } = ask else { return ask };
        if !self.guards {
            self.hand.seat.watch().input(now(), &keys);
            return Ask::Input(keys);
        }
        self.guarded = Some(keys.clone());
        Ask::Press { upto: self.upto, keys }
    }

    async fn do_what_is_due(&mut self) -> bool {
        let asks = self.typist.work().await;
        let place = self.place.tell(self.typist.composer);
        let mail = self.news.borrow_and_update().presence.mail.clone();
        let repaint = self.repaint.is_due(mail.as_deref(), Instant::now()).then_some(Ask::Repaint);
        let notice = self.place.mail(mail);
        for ask in asks.into_iter().chain(place).chain(notice).chain(repaint) {
            let ask = self.guard(ask);
            if let Ask::Input(_) = ask {
                self.announcer.answered();
            }
            if !self.ask(ask).await {
                return false;
            }
        }
        true
    }
}
