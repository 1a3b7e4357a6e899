module magnetar/loadgen

go 1.24
