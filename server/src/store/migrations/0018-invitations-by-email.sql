-- Whether somebody who comes with a provider is invited anywhere is asked by their address alone.
create index invitations_by_email on invitations (email);
