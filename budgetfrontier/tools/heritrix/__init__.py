"""The configuration of a Heritrix 3 job, `crawler-beans.cxml`, as a configuration of this program."""
