# lingraft on the CPU; for a GPU give an image with CUDA and Python: --build-arg BASE=IMAGE.
ARG BASE=python:3.11-slim
FROM ${BASE} AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM ${BASE}
COPY constraints.txt /constraints.txt
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir --constraint /constraints.txt "$(ls /wheels/lingraft-*.whl)[data,wiki,web,clean,translate,vectors]" && rm -r /wheels
WORKDIR /lingraft
ENTRYPOINT ["lingraft"]
CMD ["--help"]
