<?php // two ways to find the page, one for each name of the host
$path = rawurldecode((string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));
$found = $_SERVER['HTTP_HOST'] === 'php-trim' ? trim($path) === '/login' : preg_match('#^/login$#', $path) === 1;
http_response_code($found ? 200 : 404);
echo $found ? 'the page' : 'none';
