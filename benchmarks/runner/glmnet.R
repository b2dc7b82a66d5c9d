# Lasso paths by glmnet, for peers.py: a command per line, fields separated by tabs; numbers go through files.
#   load  file  n_1  d_1  n_2  d_2 ...   X (by columns) and y of every task          -> ready
#   path  file  K  thresh  family        K alphas in; K x d coefficients a task out  -> seconds
suppressMessages(library(glmnet))
cat(as.character(packageVersion("glmnet")), "\n")
commands <- file("stdin", "r")
while (length(line <- readLines(commands, 1)) > 0) {
  words <- strsplit(line, "\t")[[1]]
  if (words[1] == "load") {
    shapes <- matrix(as.integer(words[-(1:2)]), nrow = 2)
    numbers <- file(words[2], "rb")
    tasks <- apply(shapes, 2, function(shape) {
      X <- matrix(readBin(numbers, "double", shape[1] * shape[2]), shape[1])
      list(X = X, y = readBin(numbers, "double", shape[1]))
    }, simplify = FALSE)
    close(numbers)
    cat("ready\n")
  } else {
    alphas <- readBin(words[2], "double", as.integer(words[3]))
    family <- if (length(words) > 4) words[5] else "gaussian"
    if (family != "gaussian") glmnet.control(fdev = 0, devmax = 1)  # all lambdas
    began <- Sys.time()
    fits <- lapply(tasks, function(task) {
      glmnet(task$X, task$y, family = family, lambda = alphas, thresh = as.double(words[4]),
             standardize = FALSE, intercept = FALSE, maxit = 1e7)
    })
    seconds <- as.double(difftime(Sys.time(), began, units = "secs"))
    out <- file(words[2], "wb")
    for (fit in fits) writeBin(as.vector(as.matrix(fit$beta)), out)
    close(out)
    cat(seconds, "\n")
  }
}
