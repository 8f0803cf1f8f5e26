-- A journal of version 4 with one record: an agent that is known.
PRAGMA application_id = 0x53594e4a;
PRAGMA user_version = 5;
CREATE TABLE message (
    seq  INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    id   TEXT NOT NULL,
    key  TEXT NOT NULL,
    head TEXT NOT NULL,
    body TEXT NOT NULL,
    crc  INTEGER NOT NULL
);
CREATE UNIQUE INDEX message_by_key ON message (key);
CREATE INDEX message_by_id ON message (id);
CREATE TABLE journal (
    seq  INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    v    INTEGER NOT NULL,
    body TEXT NOT NULL,
    crc  INTEGER NOT NULL
);
CREATE TABLE task (
    seq   INTEGER PRIMARY KEY,
    at    INTEGER NOT NULL,
    id    TEXT NOT NULL,
    agent TEXT NOT NULL,
    dead  INTEGER NOT NULL,
    body  TEXT NOT NULL,
    crc   INTEGER NOT NULL
);
CREATE TABLE said (
    seq  INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    body TEXT NOT NULL,
    crc  INTEGER NOT NULL
);
CREATE INDEX said_by_task ON said (task);
CREATE TABLE snapshot (
    seq  INTEGER PRIMARY KEY,
    v    INTEGER NOT NULL,
    body TEXT NOT NULL,
    crc  INTEGER NOT NULL
);
INSERT INTO journal (seq, at, v, body, crc) VALUES (1, 1790000000000, 1, '{"known":{"id":"abababababababababababababababababababababababababababababababab","type":"echo"}}', 2999856126);
ALTER TABLE task ADD COLUMN who TEXT NOT NULL DEFAULT '';
ALTER TABLE task ADD COLUMN context TEXT NOT NULL DEFAULT '';
ALTER TABLE task ADD COLUMN state TEXT NOT NULL DEFAULT '';
CREATE INDEX task_by_who ON task (who, at, id);
CREATE INDEX task_by_tail ON task (substr(id, 21), id);
CREATE INDEX task_by_context ON task (context, who, seq) WHERE context <> id;
