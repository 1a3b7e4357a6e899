module magnetar/compat

go 1.26
