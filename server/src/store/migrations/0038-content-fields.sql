-- What an answer says about its body besides the type: Content-Encoding, Content-Language, Content-Disposition, by their names
-- in lower case. Null: nothing.

alter table run_results add column content_fields jsonb;
alter table webhook_deliveries add column content_fields jsonb;
