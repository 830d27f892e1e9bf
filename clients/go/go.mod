module seqd

go 1.22
