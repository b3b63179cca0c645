const express = require('express');

const site = express();
site.get('/login', (request, answer) => answer.send('the page'));
site.listen(Number(process.argv[2]), '127.0.0.1');
